package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.ConflictResolutionPolicy;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IncludedPath;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import mayfly.Server;
import org.junit.jupiter.api.Test;

/** Databases, containers, their policies, and throughput. */
class ManagementTest extends BothModesTest {
    private static final PartitionKey P = new PartitionKey("p");

    private static ThroughputProperties manual(int throughput) {
        return ThroughputProperties.createManualThroughput(throughput);
    }

    private static ThroughputProperties autoscale(int most) {
        return ThroughputProperties.createAutoscaledThroughput(most);
    }

    @Test
    void databases() {
        assertEquals(201, client().createDatabaseIfNotExists("first").getStatusCode());
        assertEquals(200, client().createDatabaseIfNotExists("first").getStatusCode());
        refused(409, () -> client().createDatabase("first"));
        assertEquals("first", client().getDatabase("first").read().getProperties().getId());
        client().createDatabase("second");
        assertEquals(
                List.of("first", "second", "shop"),
                ids(client().readAllDatabases(), CosmosDatabaseProperties::getId).stream().sorted().toList());
        var text = new SqlQuerySpec("SELECT * FROM d WHERE d.id = @id", new SqlParameter("@id", "second"));
        var found = client().queryDatabases(text, new CosmosQueryRequestOptions());
        assertEquals(List.of("second"), ids(found, CosmosDatabaseProperties::getId));
        for (String name : List.of("first", "second")) {
            assertEquals(204, client().getDatabase(name).delete().getStatusCode());
            refused(404, () -> client().getDatabase(name).read());
        }
    }

    @Test
    void containers() {
        client().createDatabase("many");
        var many = client().getDatabase("many");
        assertEquals(201, many.createContainerIfNotExists("a", "/pk").getStatusCode());
        assertEquals(200, many.createContainerIfNotExists("a", "/pk").getStatusCode());
        refused(409, () -> many.createContainer("a", "/pk"));
        many.createContainer("b", "/other/path");
        assertEquals(
                List.of("a", "b"),
                ids(many.readAllContainers(), CosmosContainerProperties::getId).stream().sorted().toList());
        var found = many.queryContainers("SELECT * FROM c WHERE c.id = 'b'").iterator().next();
        assertEquals(List.of("/other/path"), found.getPartitionKeyDefinition().getPaths());
        assertEquals(204, many.getContainer("b").delete().getStatusCode());
        refused(404, () -> many.getContainer("b").read());
        many.delete();
        refused(404, () -> many.getContainer("a").read());
    }

    /** What the client remembers of a container is stale where another one has its name. */
    @Test
    void anotherContainerOfTheSameName() {
        var properties = definition(null);
        var items = fresh(properties);
        items.createItem(item("1", "p"));
        try (var other = mode.builder().buildClient()) {
            var shop = other.getDatabase("shop");
            shop.getContainer(properties.getId()).delete();
            shop.createContainer(properties.getId(), "/key");
        }
        refused(404, () -> items.readItem("1", P, ObjectNode.class));
        items.createItem(JSON.createObjectNode().put("id", "1").put("key", "k"));
        assertEquals(200, items.readItem("1", new PartitionKey("k"), ObjectNode.class).getStatusCode());
    }

    @Test
    void policies() {
        var written = definition(60)
                .setIndexingPolicy(new IndexingPolicy()
                        .setIncludedPaths(List.of(new IncludedPath("/n/?")))
                        .setExcludedPaths(List.of(new ExcludedPath("/*")))
                        .setCompositeIndexes(List.of(List.of(new CompositePath().setPath("/n"), new CompositePath().setPath("/m")))))
                .setUniqueKeyPolicy(new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/mail")))))
                .setConflictResolutionPolicy(ConflictResolutionPolicy.createLastWriterWinsPolicy("/version"));
        var container = fresh(written);
        var read = container.read().getProperties();
        assertEquals(60, read.getDefaultTimeToLiveInSeconds());
        assertEquals(List.of("/mail"), read.getUniqueKeyPolicy().getUniqueKeys().get(0).getPaths());
        assertEquals("/version", read.getConflictResolutionPolicy().getConflictResolutionPath());
        assertEquals("/n/?", read.getIndexingPolicy().getIncludedPaths().get(0).getPath());
        assertEquals(2, read.getIndexingPolicy().getCompositeIndexes().get(0).size());
        read.getIndexingPolicy().setIncludedPaths(List.of(new IncludedPath("/m/?"), new IncludedPath("/n/?")));
        read.setDefaultTimeToLiveInSeconds(null);
        container.replace(read);
        read = container.read().getProperties();
        assertNull(read.getDefaultTimeToLiveInSeconds());
        assertEquals(2, read.getIndexingPolicy().getIncludedPaths().size());
    }

    @Test
    void aUniqueValueIsFreeAtTheDeadlineOfItsItem() {
        var policy = new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/mail"))));
        Items items = create(mode, definition(10).setUniqueKeyPolicy(policy));
        items.create(item("1", "p").put("mail", "a@b"));
        refused(409, () -> items.create(item("2", "p").put("mail", "a@b")));
        assertEquals(201, items.create(item("2", "q").put("mail", "a@b")).getStatusCode(), "each key has its own values");
        Server.advance(9);
        refused(409, () -> items.create(item("2", "p").put("mail", "a@b")));
        Server.advance(1);
        assertEquals(201, items.create(item("2", "p").put("mail", "a@b")).getStatusCode());
    }

    @Test
    void throughput() {
        var container = fresh(definition(null), 500);
        assertEquals(500, container.readThroughput().getProperties().getManualThroughput());
        assertEquals(400, container.readThroughput().getMinThroughput());
        assertEquals(700, container.replaceThroughput(manual(700)).getProperties().getManualThroughput());
        assertEquals(700, container.readThroughput().getProperties().getManualThroughput());
        refused(400, () -> container.replaceThroughput(manual(150)));

        var scaled = definition(null);
        shop().createContainer(scaled, autoscale(4000));
        var moving = shop().getContainer(scaled.getId());
        assertEquals(4000, moving.readThroughput().getProperties().getAutoscaleMaxThroughput());
        moving.replaceThroughput(autoscale(6000));
        assertEquals(6000, moving.readThroughput().getProperties().getAutoscaleMaxThroughput());
    }

    @Test
    void throughputOfADatabase() {
        client().createDatabase("shared", manual(600));
        var shared = client().getDatabase("shared");
        shared.createContainer("c", "/pk");
        assertEquals(600, shared.readThroughput().getProperties().getManualThroughput());
        shared.replaceThroughput(manual(1000));
        assertEquals(1000, shared.readThroughput().getProperties().getManualThroughput());
        // The client's own answer where a container has no offer.
        refused(400, () -> shared.getContainer("c").readThroughput());
        client().createDatabase("scaled", autoscale(5000));
        assertEquals(5000, client().getDatabase("scaled").readThroughput().getProperties().getAutoscaleMaxThroughput());
        for (String name : List.of("shared", "scaled")) {
            client().getDatabase(name).delete();
        }
    }

    @Test
    void feedRanges() {
        var container = fresh(definition(null), SPREAD);
        for (int n = 0; n < 30; n++) {
            container.createItem(item("i" + n, "p" + n));
        }
        var ranges = container.getFeedRanges();
        assertEquals(4, ranges.size());
        int found = 0;
        for (var range : ranges) {
            var options = new CosmosQueryRequestOptions().setFeedRange(range);
            int here = (int) container.queryItems("SELECT * FROM c", options, ObjectNode.class).stream().count();
            assertTrue(here > 0);
            found += here;
        }
        assertEquals(30, found);
    }
}
