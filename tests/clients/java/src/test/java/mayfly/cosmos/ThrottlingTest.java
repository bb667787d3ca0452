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
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** Requests over the throughput, over http, on a server that refuses them. Its budgets are filled as the host's time passes. */
class ThrottlingTest {
    private static final String TEXT = "x".repeat(20_000);

    private static CosmosClientBuilder builder() {
        return new CosmosClientBuilder()
                .endpoint(Server.variable("MAYFLY_THROTTLED"))
                .key(Server.variable("MAYFLY_KEY"))
                .gatewayMode();
    }

    /** Upserts items of some 24 RU each, all at once. */
    private static Flux<CosmosItemResponse<ObjectNode>> upserts(CosmosAsyncClient client, int count) {
        var items = client.getDatabase("busy").getContainer("c");
        return Flux.range(0, count)
                .flatMap(n -> items.upsertItem(CosmosTest.item("i" + n, "p").put("text", TEXT)), count);
    }

    private static CosmosAsyncClient impatient() {
        var never = new ThrottlingRetryOptions().setMaxRetryAttemptsOnThrottledRequests(0);
        return builder().throttlingRetryOptions(never).buildAsyncClient();
    }

    @Test
    void whatIsRefusedIsTriedAgain() {
        try (var impatient = impatient(); var patient = builder().buildAsyncClient()) {
            impatient.createDatabase("busy").block();
            impatient.getDatabase("busy").createContainer("c", "/pk").block();
            var refusal = assertThrows(
                    CosmosException.class, () -> upserts(impatient, 100).blockLast());
            assertEquals(429, refusal.getStatusCode());
            assertEquals(3200, refusal.getSubStatusCode());
            assertTrue(refusal.getRetryAfterDuration().compareTo(Duration.ZERO) > 0);
            upserts(patient, 3).doOnNext(answer -> assertEquals(2, answer.getStatusCode() / 100)).blockLast();
        }
    }
}
