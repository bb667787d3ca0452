package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import mayfly.Server;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Each consistency level in direct mode, on an account whose default is Strong: reads see every write, and the same client's. */
class ConsistencyTest {
    private static final PartitionKey KEY = new PartitionKey("p");

    private static void writeAndRead(CosmosClient client, String database) {
        client.createDatabaseIfNotExists(database);
        client.getDatabase(database).createContainerIfNotExists("c", "/pk");
        var items = client.getDatabase(database).getContainer("c");
        for (int n = 0; n < 5; n++) {
            items.upsertItem(CosmosTest.item("a", "p").put("n", n));
            assertEquals(n, items.readItem("a", KEY, ObjectNode.class).getItem().get("n").intValue());
            var found = items.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), ObjectNode.class);
            assertEquals(List.of(n), found.stream().map(row -> row.get("n").intValue()).toList());
        }
        items.deleteItem("a", KEY, new CosmosItemRequestOptions());
        CosmosTest.refused(404, () -> items.readItem("a", KEY, ObjectNode.class));
    }

    @ParameterizedTest
    @EnumSource
    void aClientMayAskForLess(ConsistencyLevel level) {
        try (var client = CosmosTest.Flavour.DIRECT
                .builder()
                .endpoint(Server.variable("MAYFLY_STRONG"))
                .consistencyLevel(level)
                .buildClient()) {
            writeAndRead(client, "level-" + level);
        }
    }

    @Test
    void preferredRegionsThatAreNotThereAreLeftOut() {
        try (var client = CosmosTest.Flavour.DIRECT
                .builder()
                .preferredRegions(List.of("West Europe", "East US"))
                .buildClient()) {
            writeAndRead(client, "regions");
        }
    }
}
