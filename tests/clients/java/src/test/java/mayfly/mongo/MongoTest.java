package mayfly.mongo;

import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.lt;
import static com.mongodb.client.model.Indexes.ascending;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.set;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.mongodb.MongoCommandException;
import com.mongodb.MongoWriteException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Accumulators;
import com.mongodb.client.model.Aggregates;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import mayfly.Server;
import org.bson.Document;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** mongodb-driver-sync over TLS: documents, both contracts of time to live, a transaction and a change stream. */
class MongoTest {
    private MongoClient client;
    private MongoCollection<Document> carts;

    @BeforeEach
    void begin() {
        Server.begin();
        client = MongoClients.create(Server.variable("MAYFLY_MONGO_TLS"));
        carts = client.getDatabase("shop").getCollection("carts");
    }

    @AfterEach
    void end() {
        client.close();
    }

    private boolean isThere(Object id) {
        return carts.find(eq(id)).first() != null;
    }

    // --- documents ----------------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(strings = {"MAYFLY_MONGO", "MAYFLY_MONGO_TLS"})
    void documents(String address) {
        try (MongoClient other = MongoClients.create(Server.variable(address))) {
            var items = other.getDatabase("shop").getCollection("items");
            items.insertMany(IntStream.range(0, 250)
                    .mapToObj(n -> new Document("_id", n).append("third", n % 3))
                    .toList());
            assertEquals(10, items.countDocuments(lt("_id", 10)));
            List<Integer> found = items.find(eq("third", 1)).sort(Sorts.descending("_id")).batchSize(7).limit(20)
                    .map(document -> document.getInteger("_id"))
                    .into(new ArrayList<>());
            assertEquals(IntStream.range(0, 20).mapToObj(n -> 247 - 3 * n).toList(), found);
            items.updateMany(lt("_id", 5), set("n", 1));
            assertEquals(2, items.findOneAndUpdate(eq(0), inc("n", 1)).getInteger("n") + 1);
            assertEquals(245, items.deleteMany(new Document("n", null)).getDeletedCount());
            var sums = items.aggregate(List.of(Aggregates.group(null, Accumulators.sum("n", "$n"))));
            assertEquals(6, sums.first().getInteger("n"));
        }
    }

    @Test
    void aTakenKeyIsRefused() {
        carts.insertOne(new Document("_id", 1));
        var error = assertThrows(MongoWriteException.class, () -> carts.insertOne(new Document("_id", 1)));
        assertEquals(11000, error.getError().getCode());
    }

    // --- an index on _ts: a document's own ttl counts, and the dead are hidden ------------------------------------------

    static Stream<Arguments> lives() {
        return Stream.of(
                Arguments.of(10, null, 10L),
                Arguments.of(10, 20, 20L),
                Arguments.of(10, 20L, 20L),
                Arguments.of(10, 20.0, 20L),
                Arguments.of(10, 5, 5L),
                Arguments.of(10, -1, null),
                Arguments.of(10, 0, 10L),
                Arguments.of(10, 20.5, 10L),
                Arguments.of(10, 2147483649L, 10L),
                Arguments.of(10, "20", 10L),
                Arguments.of(-1, null, null),
                Arguments.of(-1, 20, 20L));
    }

    @ParameterizedTest(name = "expireAfterSeconds {0}, ttl {1}: {2}")
    @MethodSource("lives")
    void aLifeOfTheDocumentsOwn(int expireAfter, Object ttl, Long seconds) {
        carts.createIndex(ascending("_ts"), new IndexOptions().expireAfter((long) expireAfter, TimeUnit.SECONDS));
        Document document = new Document("_id", 1);
        carts.insertOne(ttl == null ? document : document.append("ttl", ttl));
        Server.advance((seconds == null ? Integer.MAX_VALUE : seconds) - 1);
        assertEquals(true, isThere(1));
        Server.advance(1);
        assertEquals(seconds == null, isThere(1));
    }

    // --- an index on a date: the dead are seen until a pass removes them ------------------------------------------------

    @Test
    void aDateOfTheDocuments() {
        carts.createIndex(ascending("at"), new IndexOptions().expireAfter(10L, TimeUnit.SECONDS));
        Date now = Date.from(Server.START);
        carts.insertOne(new Document("_id", "dated").append("at", now));
        carts.insertOne(new Document("_id", "earliest").append("at", List.of(new Date(now.getTime() + 3_600_000), now)));
        carts.insertOne(new Document("_id", "undated").append("at", "2020-01-01"));
        Server.advance(9);
        assertEquals(List.of(true, true, true), Stream.of("dated", "earliest", "undated").map(this::isThere).toList());
        // Passes come each 60 seconds.
        Server.advance(61);
        assertEquals(List.of(false, false, true), Stream.of("dated", "earliest", "undated").map(this::isThere).toList());
    }

    @Test
    void anIndexThatCannotBeOneIsRefused() {
        var options = new IndexOptions().expireAfter(-2L, TimeUnit.SECONDS);
        assertEquals(67, assertThrows(MongoCommandException.class, () -> carts.createIndex(ascending("at"), options)).getCode());
    }

    // --- transactions and change streams ------------------------------------------------------------------------------

    @Test
    void transactions() {
        carts.insertOne(new Document("_id", 1).append("n", 1));
        try (ClientSession session = client.startSession()) {
            session.withTransaction(() -> {
                carts.updateOne(session, eq(1), inc("n", 1));
                carts.insertOne(session, new Document("_id", 2));
                assertEquals(1, carts.find(eq(1)).first().getInteger("n"), "nobody else sees it yet");
                return null;
            });
            assertEquals(2, carts.find(eq(1)).first().getInteger("n"));
            session.startTransaction();
            carts.deleteMany(session, new Document());
            session.abortTransaction();
        }
        assertEquals(2, carts.countDocuments());
    }

    @Test
    void aChangeStreamTellsOfDeaths() {
        carts.createIndex(ascending("at"), new IndexOptions().expireAfter(10L, TimeUnit.SECONDS));
        try (var stream = carts.watch().cursor()) {
            carts.insertOne(new Document("_id", 1).append("at", Date.from(Server.START)));
            carts.updateOne(eq(1), set("n", 1));
            Server.advance(70);
            List<String> seen = Stream.generate(stream::next)
                    .limit(3)
                    .map(ChangeStreamDocument::getOperationTypeString)
                    .toList();
            assertEquals(List.of("insert", "update", "delete"), seen);
            assertNull(stream.tryNext());
        }
    }
}
