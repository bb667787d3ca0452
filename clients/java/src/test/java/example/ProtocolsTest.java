package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.mongodb.client.MongoClients;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.Indexes;
import java.io.IOException;
import java.net.ConnectException;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import mayflydb.Expired;
import mayflydb.Mayfly;
import mayflydb.MayflyException;
import mayflydb.WithMayfly;
import org.bson.Document;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tech.ydb.common.transaction.TxMode;
import tech.ydb.core.grpc.GrpcTransport;
import tech.ydb.query.QueryClient;
import tech.ydb.query.tools.SessionRetryContext;

@WithMayfly(start = "2026-01-01T00:00:00Z")
class ProtocolsTest {
    private static final Instant START = Instant.parse("2026-01-01T00:00:00Z");

    @Test
    void aDocumentExpiresAtItsVerySecond(Mayfly mayfly) {
        try (var client = MongoClients.create(mayfly.mongoUri())) {
            var codes = client.getDatabase("app").getCollection("codes");
            codes.createIndex(Indexes.ascending("_ts"), new IndexOptions().expireAfter(300L, TimeUnit.SECONDS));
            codes.insertOne(new Document("_id", "c1"));
            assertEquals(Optional.of(START.plusSeconds(300)), mayfly.clock().nextExpiry());

            mayfly.clock().advance(Duration.ofSeconds(299));
            assertEquals(1, codes.countDocuments());
            assertEquals(START.plusSeconds(300), mayfly.clock().advance(Duration.ofSeconds(1)).now());
            assertEquals(0, codes.countDocuments());
            var record = mayfly.expired("mongo:app").get(0);
            assertEquals(List.of("mongo:app.codes", "c1", "default"), List.of(record.target(), record.id(), record.reason()));
            assertEquals(START.plusSeconds(300), record.due());
        }
    }

    @Test
    void aRowIsPurgedOnDemandAtItsVerySecond(Mayfly mayfly) {
        try (var transport = GrpcTransport.forConnectionString(mayfly.ydbConnectionString()).build();
                var client = QueryClient.newClient(transport).build()) {
            var context = SessionRetryContext.create(client).build();
            for (String statement : List.of(
                    "CREATE TABLE carts (id Uint64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON until)",
                    "UPSERT INTO carts (id, until) VALUES (1, CurrentUtcTimestamp() + Interval('PT90S'))")) {
                context.supplyResult(session -> session.createQuery(statement, TxMode.NONE).execute()).join().getValue();
            }
            mayfly.clock().advance(Duration.ofSeconds(89));
            assertEquals(0, mayfly.purge());
            mayfly.clock().advance(Duration.ofSeconds(1));
            assertEquals(1, mayfly.purge("ydb:/local/carts"));
            assertEquals(List.of("column"), mayfly.expired().stream().map(Expired::reason).toList());
        }
    }

    @Test
    void eachTestBeginsEmpty(Mayfly mayfly) {
        assertEquals(START, mayfly.clock().now());
        assertEquals(Optional.empty(), mayfly.clock().nextExpiry());
        assertEquals(List.of(), mayfly.expired());
        assertEquals(0, mayfly.clock().advanceToNextExpiry().purged());
        assertEquals(mayfly.mongoUri(), mayfly.env().get("MONGODB_URI"));
        assertTrue(mayfly.certificate().contains("BEGIN CERTIFICATE"));
    }

    @Test
    void theClockTicksWhenItIsResumed(Mayfly mayfly) {
        mayfly.clock().resume();
        mayfly.clock().freeze();
        mayfly.clock().set(START.plusSeconds(3600));
        assertEquals(START, mayfly.clock().set(START).now());
    }

    @Test
    void refusalsAreExceptions(Mayfly mayfly) {
        assertEquals(404, assertThrows(MayflyException.class, () -> mayfly.purge("cosmos:\"nowhere\"")).status());
        var refused = assertThrows(MayflyException.class, () -> mayfly.clock().advance(Duration.ofSeconds(-1)));
        assertEquals(400, refused.status());
        var failed = assertThrows(IOException.class, () -> Mayfly.start("--no-such-flag"));
        assertTrue(failed.getMessage().contains("no-such-flag"), failed.getMessage());
    }

    @Nested
    class Inside {
        @Test
        void theStartIsThatOfTheClassAround(Mayfly mayfly) {
            assertEquals(START, mayfly.clock().now());
        }

        @Test
        @WithMayfly(start = "2030-01-01T00:00:00Z")
        void aMethodHasItsOwn(Mayfly mayfly) {
            assertEquals(Instant.parse("2030-01-01T00:00:00Z"), mayfly.clock().now());
        }
    }

    /** A process that is killed cannot stop its server. */
    @Test
    @Timeout(60)
    void theServerEndsWithItsStarter() throws Exception {
        var java = ProcessHandle.current().info().command().orElseThrow();
        var classes = System.getProperty("java.class.path");
        var starter = new ProcessBuilder(java, "-cp", classes, Starter.class.getName()).start();
        var line = starter.inputReader(StandardCharsets.UTF_8).readLine();
        var admin = URI.create(line);
        starter.destroyForcibly().waitFor();
        assertThrows(ConnectException.class, () -> {
            while (true) {
                new Socket(admin.getHost(), admin.getPort()).close();
            }
        });
    }

    static final class Starter {
        public static void main(String... arguments) throws Exception {
            System.out.println(Mayfly.start().admin());
            System.in.read();
        }
    }
}
