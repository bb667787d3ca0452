package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBulkExecutionOptions;
import com.azure.cosmos.models.CosmosBulkItemRequestOptions;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;

/** Writing items: conditions, batches, bulk, hierarchical keys. */
class ItemTest extends BothModesTest {
    private static final PartitionKey P = new PartitionKey("p");

    // --- one item -----------------------------------------------------------------------------------------------------

    @Test
    void aWriteBringsNoBodyUnlessItIsAskedFor() {
        Items items = container(mode, null);
        var created = items.create(item("1", "p"));
        assertEquals(201, created.getStatusCode());
        assertNull(created.getItem());
        assertEquals(items.read("1", "p").getETag(), created.getETag());
        try (CosmosClient other = mode.builder().contentResponseOnWriteEnabled(true).buildClient()) {
            var same = other.getDatabase("shop").getContainer(items.properties().getId());
            assertEquals("2", same.createItem(item("2", "p")).getItem().get("id").textValue());
        }
    }

    @Test
    void conditions() {
        CosmosContainer items = fresh(definition(null));
        String stale = items.createItem(item("1", "p")).getETag();
        String current = items.upsertItem(item("1", "p").put("n", 1)).getETag();
        var onStale = new CosmosItemRequestOptions().setIfMatchETag(stale);
        refused(412, () -> items.replaceItem(item("1", "p"), "1", P, onStale));
        refused(412, () -> items.deleteItem("1", P, onStale));
        var unlessSeen = new CosmosItemRequestOptions().setIfNoneMatchETag(current);
        assertEquals(304, items.readItem("1", P, unlessSeen, ObjectNode.class).getStatusCode());
        var where = new CosmosPatchItemRequestOptions().setFilterPredicate("FROM c WHERE c.n = 2");
        var step = CosmosPatchOperations.create().increment("/n", 1);
        refused(412, () -> items.patchItem("1", P, step, where, ObjectNode.class));
        where.setFilterPredicate("FROM c WHERE c.n = 1");
        assertEquals(200, items.patchItem("1", P, step, where, ObjectNode.class).getStatusCode());
        assertEquals(2, items.readItem("1", P, ObjectNode.class).getItem().get("n").intValue());
    }

    @Test
    void deleteALogicalPartition() {
        CosmosContainer items = fresh(definition(null));
        List.of("p", "q").forEach(key -> items.createItem(item("1", key)));
        items.deleteAllItemsByPartitionKey(P, new CosmosItemRequestOptions());
        assertEquals(0, items.readAllItems(P, ObjectNode.class).stream().count());
        assertEquals(1, items.readAllItems(new PartitionKey("q"), ObjectNode.class).stream().count());
    }

    // --- batches ------------------------------------------------------------------------------------------------------

    @Test
    void aBatchIsDoneAsAWhole() {
        Items items = container(mode, null);
        items.create(item("old", "p"));
        CosmosBatch batch = CosmosBatch.createCosmosBatch(P);
        batch.createItemOperation(item("1", "p"));
        batch.upsertItemOperation(item("2", "p"));
        batch.replaceItemOperation("1", item("1", "p").put("n", 1));
        batch.patchItemOperation("1", CosmosPatchOperations.create().increment("/n", 1));
        batch.readItemOperation("1");
        batch.deleteItemOperation("old");
        var answer = items.batch(batch);
        var statuses = answer.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
        assertEquals(List.of(201, 201, 200, 200, 200, 204), statuses);
        assertEquals(2, answer.getResults().get(4).getItem(ObjectNode.class).get("n").intValue());
        assertEquals(List.of("1", "2"), items.readAll("p").stream().map(item -> item.get("id").textValue()).toList());

        CosmosBatch failing = CosmosBatch.createCosmosBatch(P);
        failing.createItemOperation(item("3", "p"));
        failing.createItemOperation(item("1", "p"));
        failing.readItemOperation("2");
        statuses = items.batch(failing).getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
        assertEquals(List.of(424, 409, 424), statuses);
        assertEquals(2, items.readAll("p").size());
    }

    // --- bulk ---------------------------------------------------------------------------------------------------------

    /** By default a bulk wants no bodies of what it writes (`minimalReturnPreference`), and has them where it asks. */
    @ParameterizedTest(name = "bodies: {0}")
    @ValueSource(booleans = {false, true})
    void bulkOverThreeRanges(boolean bodies) {
        CosmosContainer items = fresh(definition(null), SPREAD);
        var options = new CosmosBulkItemRequestOptions().setContentResponseOnWriteEnabled(bodies);
        List<CosmosItemOperation> creations = new ArrayList<>();
        for (int n = 0; n < 300; n++) {
            String key = "p" + n % 40;
            creations.add(
                    CosmosBulkOperations.getCreateItemOperation(item("i" + n, key), new PartitionKey(key), options));
        }
        int written = 0;
        for (CosmosBulkOperationResponse<Object> answer : items.executeBulkOperations(creations)) {
            assertNull(answer.getException());
            assertEquals(201, answer.getResponse().getStatusCode());
            assertNotNull(answer.getResponse().getETag());
            assertEquals(bodies, answer.getResponse().getItem(ObjectNode.class) != null);
            written++;
        }
        assertEquals(300, written);
        var count = items.queryItems("SELECT VALUE COUNT(1) FROM c", new CosmosQueryRequestOptions(), JsonNode.class);
        assertEquals(300, count.iterator().next().intValue());
    }

    @Test
    void aBulkOperationFailsByItself() {
        Items container = container(Flavour.DIRECT, null);
        container.create(item("1", "p"));
        List<CosmosItemOperation> operations = List.of(
                CosmosBulkOperations.getCreateItemOperation(item("1", "p"), P, "taken"),
                CosmosBulkOperations.getUpsertItemOperation(item("2", "p"), P, "new"),
                CosmosBulkOperations.getReadItemOperation("1", P, "read"),
                CosmosBulkOperations.getPatchItemOperation("none", P, CosmosPatchOperations.create().set("/n", 1), "none"),
                CosmosBulkOperations.getDeleteItemOperation("none", P, "gone"));
        var items = ((Items.Async) container).container();
        Map<String, Integer> statuses = new HashMap<>();
        items.<String>executeBulkOperations(Flux.fromIterable(operations), new CosmosBulkExecutionOptions())
                .toIterable()
                .forEach(answer -> statuses.put(
                        answer.getOperation().getContext(), answer.getResponse().getStatusCode()));
        assertEquals(Map.of("taken", 409, "new", 201, "read", 200, "none", 404, "gone", 404), statuses);
    }

    // --- hierarchical keys --------------------------------------------------------------------------------------------

    private CosmosContainer tree(PartitionKeyDefinitionVersion version) {
        var key = new PartitionKeyDefinition().setKind(PartitionKind.MULTI_HASH).setPaths(List.of("/tenant", "/user"));
        if (version != null) {
            key.setVersion(version);
        }
        var properties = new CosmosContainerProperties(definition(null).getId(), key);
        return fresh(properties, SPREAD);
    }

    @ParameterizedTest(name = "version: {0}")
    @ValueSource(strings = {"V2", ""})
    void hierarchicalKeys(String version) {
        var items = tree(version.isEmpty() ? null : PartitionKeyDefinitionVersion.valueOf(version));
        var key = items.read().getProperties().getPartitionKeyDefinition();
        assertEquals(List.of("/tenant", "/user"), key.getPaths());
        assertEquals(PartitionKind.MULTI_HASH, key.getKind());
        for (String tenant : List.of("a", "b", "c")) {
            for (String user : List.of("x", "y")) {
                items.createItem(JSON.createObjectNode().put("id", "1").put("tenant", tenant).put("user", user));
            }
        }
        PartitionKey whole = new PartitionKeyBuilder().add("a").add("y").build();
        assertEquals("y", items.readItem("1", whole, ObjectNode.class).getItem().get("user").textValue());
        PartitionKey prefix = new PartitionKeyBuilder().add("b").build();
        var options = new CosmosQueryRequestOptions().setPartitionKey(prefix);
        var users = items.queryItems("SELECT VALUE c.user FROM c ORDER BY c.user DESC", options, String.class);
        assertEquals(List.of("y", "x"), users.stream().toList());
        var all = items.queryItems("SELECT VALUE COUNT(1) FROM c", new CosmosQueryRequestOptions(), JsonNode.class);
        assertEquals(6, all.iterator().next().intValue());
        items.deleteItem("1", whole, null);
        refused(404, () -> items.readItem("1", whole, ObjectNode.class));
    }
}
