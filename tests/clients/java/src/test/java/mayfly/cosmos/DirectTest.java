package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import mayfly.Server;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** A client as its builder makes it, with an address and a key and nothing else: items go over rntbd. */
class DirectTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PartitionKey KEY = new PartitionKey("p");
    private static final int SPREAD = 24_000;

    private static CosmosClient client;
    private static CosmosDatabase database;
    private static int names;

    @BeforeAll
    static void begin() {
        Server.begin();
        client = new CosmosClientBuilder()
                .endpoint(Server.variable("MAYFLY_COSMOS_TLS"))
                .key(Server.variable("MAYFLY_KEY"))
                .buildClient();
        assertEquals(201, client.createDatabaseIfNotExists("direct").getStatusCode());
        assertEquals(200, client.createDatabaseIfNotExists("direct").getStatusCode());
        database = client.getDatabase("direct");
    }

    @AfterAll
    static void end() {
        client.close();
    }

    private static CosmosContainer create(int throughput, Integer defaultTtl) {
        CosmosContainerProperties properties = new CosmosContainerProperties("c" + ++names, "/pk");
        properties.setDefaultTimeToLiveInSeconds(defaultTtl);
        ThroughputProperties manual = ThroughputProperties.createManualThroughput(throughput);
        assertEquals(201, database.createContainerIfNotExists(properties, manual).getStatusCode());
        assertEquals(200, database.createContainerIfNotExists(properties, manual).getStatusCode());
        return database.getContainer(properties.getId());
    }

    private static CosmosContainer create() {
        return create(400, null);
    }

    private static ObjectNode item(String id, String key) {
        return JSON.createObjectNode().put("id", id).put("pk", key);
    }

    private static JsonNode read(CosmosContainer container, String id) {
        return container.readItem(id, KEY, JsonNode.class).getItem();
    }

    private static void refused(int status, Runnable work) {
        assertEquals(status, assertThrows(CosmosException.class, work::run).getStatusCode());
    }

    /** Which server the request went to, as the client notes it. */
    private static void wentDirect(CosmosItemResponse<?> response) {
        String said = response.getDiagnostics().toString();
        assertTrue(said.contains("rntbd://localhost:"), said);
    }

    @Test
    void itemsLiveAndChange() {
        CosmosContainer container = create();
        CosmosItemResponse<ObjectNode> created = container.createItem(item("1", "p").put("n", 1), KEY, null);
        wentDirect(created);
        assertEquals(201, created.getStatusCode());
        refused(409, () -> container.createItem(item("1", "p"), KEY, null));
        wentDirect(container.readItem("1", KEY, JsonNode.class));
        assertEquals(1, read(container, "1").get("n").intValue());
        refused(404, () -> read(container, "2"));
        assertEquals(200, container.upsertItem(item("1", "p").put("n", 2), KEY, null).getStatusCode());
        assertEquals(200, container.replaceItem(item("1", "p").put("n", 3), "1", KEY, null).getStatusCode());
        refused(412, () -> container.replaceItem(
                item("1", "p"), "1", KEY, new CosmosItemRequestOptions().setIfMatchETag(created.getETag())));
        CosmosPatchOperations increment = CosmosPatchOperations.create().increment("/n", 4);
        assertEquals(200, container.patchItem("1", KEY, increment, JsonNode.class).getStatusCode());
        assertEquals(7, read(container, "1").get("n").intValue());
        assertEquals(204, container.deleteItem("1", KEY, null).getStatusCode());
        refused(404, () -> read(container, "1"));
        refused(400, () -> container.createItem(item("1", "other"), KEY, null));
    }

    @Test
    void anIdMayHaveAnyCharacters() {
        CosmosContainer container = create();
        for (String id : List.of("ü €", "a+b%20c", "😀", "it's", "a&b=c", "[1]")) {
            container.createItem(item(id, "p"), KEY, null);
            assertEquals(id, read(container, id).get("id").textValue());
        }
    }

    @Test
    void aLargeItemIsOneFrame() {
        CosmosContainer container = create();
        String text = "x".repeat(1_900_000);
        container.createItem(item("1", "p").put("text", text), KEY, null);
        assertEquals(text, read(container, "1").get("text").textValue());
        refused(413, () -> container.createItem(item("2", "p").put("text", text + text), KEY, null));
        assertEquals("1", read(container, "1").get("id").textValue());
    }

    @Test
    void queriesHavePages() {
        CosmosContainer container = create(SPREAD, null);
        TreeSet<String> wanted = new TreeSet<>();
        for (int number = 0; number < 30; number++) {
            String name = String.format("%02d", number);
            container.createItem(item(name, "p" + number), new PartitionKey("p" + number), null);
            wanted.add(name);
        }
        TreeSet<String> found = new TreeSet<>();
        int pages = 0;
        for (FeedResponse<JsonNode> page : container
                .queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), JsonNode.class)
                .iterableByPage(7)) {
            pages++;
            page.getResults().forEach(each -> found.add(each.get("id").textValue()));
        }
        assertEquals(wanted, found);
        assertTrue(pages >= 5, () -> "fewer than five pages");
        List<String> sorted = new ArrayList<>();
        container.queryItems("SELECT VALUE c.id FROM c ORDER BY c.id DESC", new CosmosQueryRequestOptions(), String.class)
                .forEach(sorted::add);
        assertEquals(List.copyOf(wanted.descendingSet()), sorted);
        CosmosQueryRequestOptions one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("p3"));
        assertEquals(1, container.queryItems("SELECT * FROM c", one, JsonNode.class).stream().count());
        assertEquals(1, container.readAllItems(new PartitionKey("p3"), JsonNode.class).stream().count());
        int total = container
                .queryItems("SELECT VALUE COUNT(1) FROM c", new CosmosQueryRequestOptions(), Integer.class)
                .iterator()
                .next();
        assertEquals(30, total);
        refused(400, () -> container
                .queryItems("SELECT * FRM c", new CosmosQueryRequestOptions(), JsonNode.class)
                .iterator()
                .next());
    }

    @Test
    void aBatchIsAllOrNothing() {
        CosmosContainer container = create();
        CosmosBatch good = CosmosBatch.createCosmosBatch(KEY);
        good.createItemOperation(item("1", "p"));
        good.createItemOperation(item("2", "p"));
        good.readItemOperation("1");
        CosmosBatchResponse done = container.executeCosmosBatch(good);
        assertTrue(done.isSuccessStatusCode(), done::getErrorMessage);
        assertEquals(3, done.size());
        CosmosBatch bad = CosmosBatch.createCosmosBatch(KEY);
        bad.createItemOperation(item("3", "p"));
        bad.createItemOperation(item("1", "p"));
        CosmosBatchResponse refusal = container.executeCosmosBatch(bad);
        assertFalse(refusal.isSuccessStatusCode());
        assertEquals(409, refusal.getStatusCode());
        assertEquals(424, refusal.getResults().get(0).getStatusCode());
        refused(404, () -> read(container, "3"));
    }

    @Test
    void bulkWritesGoToTheirRanges() {
        CosmosContainer container = create(SPREAD, null);
        List<CosmosItemOperation> operations = new ArrayList<>();
        for (int number = 0; number < 250; number++) {
            operations.add(CosmosBulkOperations.getCreateItemOperation(
                    item("i" + number, "p" + number), new PartitionKey("p" + number)));
        }
        container.executeBulkOperations(operations)
                .forEach(each -> assertEquals(201, each.getResponse().getStatusCode()));
        int total = container
                .queryItems("SELECT VALUE COUNT(1) FROM c", new CosmosQueryRequestOptions(), Integer.class)
                .iterator()
                .next();
        assertEquals(250, total);
    }

    @Test
    void theChangeFeedGoesOn() {
        CosmosContainer container = create(SPREAD, null);
        container.createItem(item("1", "a"), new PartitionKey("a"), null);
        container.createItem(item("2", "b"), new PartitionKey("b"), null);
        TreeSet<String> seen = new TreeSet<>();
        String token = follow(
                container,
                CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange()),
                seen);
        assertEquals(new TreeSet<>(List.of("1", "2")), seen);
        container.createItem(item("3", "c"), new PartitionKey("c"), null);
        TreeSet<String> later = new TreeSet<>();
        follow(container, CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(token), later);
        assertEquals(new TreeSet<>(List.of("3")), later);
    }

    private static String follow(CosmosContainer container, CosmosChangeFeedRequestOptions options, TreeSet<String> into) {
        String token = null;
        for (FeedResponse<JsonNode> page :
                container.queryChangeFeed(options, JsonNode.class).iterableByPage()) {
            page.getResults().forEach(each -> into.add(each.get("id").textValue()));
            token = page.getContinuationToken();
        }
        return token;
    }

    @Test
    void aStoredProcedureRuns() {
        CosmosContainer container = create();
        String body = "function (name) { getContext().getCollection().createDocument("
                + "getContext().getCollection().getSelfLink(), {id: name, pk: 'p'},"
                + " function (error, made) { if (error) throw error; getContext().getResponse().setBody(made.id); }); }";
        container.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("make", body));
        CosmosStoredProcedureRequestOptions options =
                new CosmosStoredProcedureRequestOptions().setPartitionKey(KEY);
        assertEquals(
                "\"made\"",
                container.getScripts()
                        .getStoredProcedure("make")
                        .execute(List.of("made"), options)
                        .getResponseAsString());
        assertEquals("made", read(container, "made").get("id").textValue());
    }

    @Test
    void anItemDiesAtItsSecond() {
        CosmosContainer container = create(400, 100);
        container.createItem(item("default", "p"), KEY, null);
        container.createItem(item("own", "p").put("ttl", 10), KEY, null);
        container.createItem(item("never", "p").put("ttl", -1), KEY, null);
        Server.advance(9);
        read(container, "own");
        Server.advance(1);
        refused(404, () -> read(container, "own"));
        Server.advance(89);
        read(container, "default");
        Server.advance(1);
        refused(404, () -> read(container, "default"));
        assertEquals(
                1,
                container.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), JsonNode.class).stream()
                        .count());
    }

    @Test
    void aContainerThatWasCreatedAgainIsFound() {
        CosmosContainer container = create();
        container.createItem(item("1", "p"), KEY, null);
        // Another client's doing, of which this one learns by its next request.
        try (CosmosClient other = new CosmosClientBuilder()
                .endpoint(Server.variable("MAYFLY_COSMOS_TLS"))
                .key(Server.variable("MAYFLY_KEY"))
                .gatewayMode()
                .buildClient()) {
            CosmosDatabase same = other.getDatabase("direct");
            same.getContainer(container.getId()).delete();
            same.createContainer(container.getId(), "/pk");
        }
        assertEquals(201, container.createItem(item("1", "p"), KEY, null).getStatusCode());
        assertEquals("1", read(container, "1").get("id").textValue());
    }

    @Test
    void metadataIsListed() {
        CosmosContainer container = create();
        assertTrue(client.readAllDatabases().stream().anyMatch(each -> each.getId().equals("direct")));
        assertTrue(database.readAllContainers().stream().anyMatch(each -> each.getId().equals(container.getId())));
        assertEquals(
                1,
                database.queryContainers("SELECT * FROM c WHERE c.id = '" + container.getId() + "'", null).stream()
                        .count());
    }
}
