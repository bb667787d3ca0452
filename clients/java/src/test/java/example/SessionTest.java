package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import java.time.Duration;
import java.util.Map;
import mayflydb.Expired;
import mayflydb.Mayfly;
import mayflydb.WithMayfly;
import org.junit.jupiter.api.Test;

@WithMayfly(start = "2026-01-01T00:00:00Z")
class SessionTest {
    @Test
    void aSessionExpiresAfterAnHour(Mayfly mayfly) {
        try (var client = new CosmosClientBuilder()
                .endpoint(mayfly.cosmosEndpoint())
                .key(mayfly.cosmosKey())
                .gatewayMode()
                .buildClient()) {
            client.createDatabase("shop");
            var shop = client.getDatabase("shop");
            shop.createContainer(new CosmosContainerProperties("sessions", "/userId").setDefaultTimeToLiveInSeconds(3600));
            var sessions = shop.getContainer("sessions");
            sessions.createItem(Map.of("id", "s1", "userId", "u1"));

            mayfly.clock().advance(Duration.ofSeconds(3599));
            sessions.readItem("s1", new PartitionKey("u1"), Map.class);
            mayfly.clock().advance(Duration.ofSeconds(1));
            assertThrows(CosmosException.class, () -> sessions.readItem("s1", new PartitionKey("u1"), Map.class));
            assertEquals(1, mayfly.expired().stream().map(Expired::id).filter("s1"::equals).count());
        }
    }
}
