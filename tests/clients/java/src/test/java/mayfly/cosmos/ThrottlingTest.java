package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.ThrottlingRetryOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import mayfly.Server;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.publisher.Flux;

/** Requests over the throughput, in both modes, on a server that refuses them. Its budgets are filled as the host's time passes. */
class ThrottlingTest {
    private static final String TEXT = "x".repeat(20_000);

    private static CosmosClientBuilder builder(CosmosTest.Flavour flavour) {
        return flavour.builder().endpoint(Server.variable("MAYFLY_THROTTLED"));
    }

    /** Upserts items of some 24 RU each, all at once. */
    private static Flux<CosmosItemResponse<ObjectNode>> upserts(CosmosAsyncClient client, String database, int count) {
        var items = client.getDatabase(database).getContainer("c");
        return Flux.range(0, count)
                .flatMap(n -> items.upsertItem(CosmosTest.item("i" + n, "p").put("text", TEXT)), count);
    }

    private static CosmosAsyncClient impatient(CosmosTest.Flavour flavour) {
        var never = new ThrottlingRetryOptions().setMaxRetryAttemptsOnThrottledRequests(0);
        return builder(flavour).throttlingRetryOptions(never).buildAsyncClient();
    }

    @ParameterizedTest
    @EnumSource
    void whatIsRefusedIsTriedAgain(CosmosTest.Flavour flavour) {
        String database = "busy-" + flavour;
        try (var impatient = impatient(flavour); var patient = builder(flavour).buildAsyncClient()) {
            impatient.createDatabase(database).block();
            impatient.getDatabase(database).createContainer("c", "/pk").block();
            var refusal = assertThrows(
                    CosmosException.class, () -> upserts(impatient, database, 100).blockLast());
            assertEquals(429, refusal.getStatusCode());
            assertEquals(3200, refusal.getSubStatusCode());
            assertTrue(refusal.getRetryAfterDuration().compareTo(Duration.ZERO) > 0);
            upserts(patient, database, 3).doOnNext(answer -> assertEquals(2, answer.getStatusCode() / 100)).blockLast();
        }
    }
}
