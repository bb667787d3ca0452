package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.StreamSupport;
import mayfly.Server;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.function.Executable;

/** Both clients over TLS, on a server that has just begun. */
abstract class CosmosTest {
    static final int MOST = Integer.MAX_VALUE;

    /** The span of an item that does not die. */
    static final int NEVER = -1;
    static final ObjectMapper JSON = new ObjectMapper();

    /** Enough for three partition key ranges. */
    static final int SPREAD = 24_000;

    static CosmosClient client;
    static CosmosAsyncClient asyncClient;

    private static int names;

    /** The synchronous client in gateway mode, and the asynchronous one as it is by default: in direct mode. */
    enum Flavour {
        GATEWAY,
        DIRECT;

        /** Of clients with their default settings, in this mode. */
        CosmosClientBuilder builder() {
            var builder = new CosmosClientBuilder()
                    .endpoint(Server.variable("MAYFLY_COSMOS_TLS"))
                    .key(Server.variable("MAYFLY_KEY"));
            return this == GATEWAY ? builder.gatewayMode() : builder;
        }
    }

    @BeforeAll
    static void begin() {
        Server.begin();
        client = Flavour.GATEWAY.builder().buildClient();
        asyncClient = Flavour.DIRECT.builder().buildAsyncClient();
        client.createDatabase("shop");
    }

    @AfterAll
    static void end() {
        client.close();
        asyncClient.close();
    }

    /** The definition of a container that no other test has, by the key /pk; `defaultTtl` null: off. */
    static CosmosContainerProperties definition(Integer defaultTtl) {
        CosmosContainerProperties properties = new CosmosContainerProperties("c" + ++names, "/pk");
        properties.setDefaultTimeToLiveInSeconds(defaultTtl);
        return properties;
    }

    static Items create(Flavour flavour, CosmosContainerProperties properties) {
        return create(flavour, properties, 400);
    }

    static Items create(Flavour flavour, CosmosContainerProperties properties, int throughput) {
        ThroughputProperties manual = ThroughputProperties.createManualThroughput(throughput);
        if (flavour == Flavour.GATEWAY) {
            client.getDatabase("shop").createContainer(properties, manual);
        } else {
            asyncClient.getDatabase("shop").createContainer(properties, manual).block();
        }
        return open(flavour, properties.getId());
    }

    static Items container(Flavour flavour, Integer defaultTtl) {
        return create(flavour, definition(defaultTtl));
    }

    static Items open(Flavour flavour, String name) {
        return flavour == Flavour.GATEWAY
                ? new Items.Sync(client.getDatabase("shop").getContainer(name))
                : new Items.Async(asyncClient.getDatabase("shop").getContainer(name));
    }

    /** `{"id":…,"pk":…}`. */
    static ObjectNode item(String id, String key) {
        return JSON.createObjectNode().put("id", id).put("pk", key);
    }

    /** The same with a member whose value is this JSON text, to the letter. */
    static ObjectNode item(String id, String key, String member, String text) {
        ObjectNode item = item(id, key);
        item.putRawValue(member, new RawValue(text));
        return item;
    }

    /** The ids of resources or items, as they come. */
    static <T> List<String> ids(Iterable<T> rows, Function<T, String> id) {
        return StreamSupport.stream(rows.spliterator(), false).map(id).toList();
    }

    static void refused(int status, Executable work) {
        assertEquals(status, assertThrows(CosmosException.class, work).getStatusCode());
    }

    static boolean isThere(Items items, String id, String key) {
        try {
            return items.read(id, key).getStatusCode() == 200;
        } catch (CosmosException error) {
            assertEquals(404, error.getStatusCode());
            return false;
        }
    }

    /**
     * Each item of partition `p` is there up to the second before its last, and gone at that second, in each container.
     *
     * @param spans by id, how many seconds from now on, or NEVER: still there after the longest ttl
     */
    static void liveFor(Map<String, Integer> spans, Items... containers) {
        TreeSet<Integer> ends = new TreeSet<>(spans.values());
        if (ends.remove(NEVER)) {
            ends.add(MOST);
        }
        long passed = 0;
        for (int end : ends) {
            for (long second : new long[] {end - 1L, end}) {
                Server.advance(second - passed);
                passed = second;
                for (Items items : containers) {
                    check(items, spans, end, second);
                }
            }
        }
    }

    /** A query finds those that live, and a read those of the items that die at `end`. */
    private static void check(Items items, Map<String, Integer> spans, int end, long second) {
        Set<String> living = new TreeSet<>();
        spans.forEach((id, span) -> {
            boolean lives = span == NEVER || second < span;
            if (lives) {
                living.add(id);
            }
            if (span == end || span == NEVER) {
                assertEquals(lives, isThere(items, id, "p"), () -> id + " after " + second);
            }
        });
        Set<String> found = new TreeSet<>();
        items.query("SELECT VALUE c.id FROM c").forEach(id -> found.add(id.textValue()));
        assertEquals(living, found, () -> "after " + second);
    }
}
