package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.annotation.JsonInclude;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import mayfly.Server;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The program of docs/java.md, which shows parts of it to the letter. */
class HowToTest {
    private static final String endpoint = Server.variable("MAYFLY_COSMOS_TLS");
    private static final String key = Server.variable("MAYFLY_KEY");
    private static final String admin = Server.variable("MAYFLY_ADMIN");

    /** A ttl of null is left out: the container's default counts. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Session(String id, String user, Integer ttl) {}

    static void advance(long seconds) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(admin + "/clock/advance"))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString("{\"seconds\": " + seconds + "}"))
                .build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals(200, answer.statusCode(), answer.body());
    }

    @BeforeAll
    static void begin() {
        Server.begin();
    }

    @Test
    void sessionsEnd() throws Exception {
        try (CosmosClient client = new CosmosClientBuilder().endpoint(endpoint).key(key).buildClient()) {
            client.createDatabaseIfNotExists("shop");
            var properties = new CosmosContainerProperties("sessions", "/user");
            properties.setDefaultTimeToLiveInSeconds(600);
            client.getDatabase("shop").createContainerIfNotExists(properties);
            CosmosContainer sessions = client.getDatabase("shop").getContainer("sessions");

            sessions.createItem(new Session("1", "ann", null)); // ten minutes, by the container's default
            sessions.createItem(new Session("2", "ann", 60)); // a minute
            sessions.createItem(new Session("3", "ann", -1)); // for ever

            advance(59);
            assertEquals(60, sessions.readItem("2", new PartitionKey("ann"), Session.class).getItem().ttl());
            advance(1);
            var gone = assertThrows(
                    CosmosException.class, () -> sessions.readItem("2", new PartitionKey("ann"), Session.class));
            assertEquals(404, gone.getStatusCode());

            sessions.upsertItem(new Session("1", "ann", null)); // each write begins a new life
            advance(599);
            assertEquals(2, sessions.readAllItems(new PartitionKey("ann"), Session.class).stream().count());
            advance(1);
            assertEquals(1, sessions.readAllItems(new PartitionKey("ann"), Session.class).stream().count());
        }
    }
}
