package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import mayflydb.Follow;
import mayflydb.Mayfly;
import mayflydb.MayflyException;
import mayflydb.Seeded;
import mayflydb.WithMayfly;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Seeds, snapshots, reports, events, refusals; runs with each JUnit that the README names. */
@WithMayfly(start = "2026-01-01T00:00:00Z", seed = "src/test/resources/shop.json")
class AdminTest {
    private static final Instant START = Instant.parse("2026-01-01T00:00:00Z");
    private static final String SESSIONS = "cosmos:shop/sessions";

    @BeforeEach
    void theSeedIsThereBeforeTheTest(Mayfly mayfly) {
        assertTrue(mayfly.stats().databases() <= 1);
    }

    @Test
    void aSeedMakesWhatDocumentsAndFilesDescribeOnce(Mayfly mayfly, @TempDir Path home) throws Exception {
        assertEquals(2, mayfly.stats().records());
        var file = Files.writeString(
                home.resolve("more.json"),
                """
                {"mongo": {"databases": [{"name": "app", "collections": [
                    {"name": "n", "documents": [{"_id": 9007199254740993}]}]}]}}""");
        assertEquals(new Seeded(2, 0, 0), mayfly.seed(file));
        assertEquals(new Seeded(0, 0, 4), mayfly.seed(Path.of("src/test/resources/shop.json")));
        assertTrue(mayfly.call("GET", "data/export?target=mongo:app.n", "").contains("9007199254740993"));
        Map<String, Object> document = Collections.singletonMap("_id", "é\"\n");
        var collection = Map.of("name", "notes", "documents", Arrays.asList(document));
        var seeded = mayfly.seed(Map.of("mongo", Map.of("databases", List.of(Map.of("name", "app", "collections", List.of(collection))))));
        assertEquals(2, seeded.created());
        assertThrows(IllegalArgumentException.class, () -> mayfly.seed(home.resolve("shop.toml")));
        assertThrows(NoSuchFileException.class, () -> mayfly.seed(home.resolve("none.json")));
        assertEquals(400, assertThrows(MayflyException.class, () -> mayfly.seed("{")).status());
    }

    @Test
    void aSnapshotHasRecordsAndClock(Mayfly mayfly) {
        var saved = mayfly.snapshot("fresh");
        assertEquals(START, saved.savedAt());
        assertEquals(1, mayfly.clock().advance(Duration.ofMinutes(1)).purged());
        assertEquals(1, mayfly.stats().records());
        mayfly.restore("fresh");
        assertEquals(2, mayfly.stats().records());
        assertEquals(START, mayfly.clock().now());
        assertEquals(List.of(saved), mayfly.snapshots());
        mayfly.deleteSnapshot("fresh");
        assertEquals(List.of(), mayfly.snapshots());
        assertEquals(404, assertThrows(MayflyException.class, () -> mayfly.restore("fresh")).status());
        assertEquals(400, assertThrows(MayflyException.class, () -> mayfly.snapshot("a b")).status());
    }

    @Test
    void reportsChangeNothing(Mayfly mayfly) {
        var preview = mayfly.preview(SESSIONS, Map.of("default_ttl", 1800));
        assertEquals(List.of(2L, 0L, 2L), List.of(preview.records(), preview.expireNow(), preview.expireWithin().get("1h")));
        assertEquals(2, mayfly.preview(SESSIONS, Collections.singletonMap("default_ttl", null)).never());
        var forecast = mayfly.forecast(Duration.ofHours(1), 2, SESSIONS);
        assertEquals(List.of(1L, 1L), forecast.buckets().stream().map(bucket -> bucket.count()).toList());
        assertEquals(2, mayfly.forecast(Duration.ofHours(1), 60).inHorizon());
        var why = mayfly.explain(SESSIONS, "s2", "u1");
        assertEquals(Optional.of(START.plusSeconds(60)), why.deadline());
        assertEquals("alive", why.state());
        assertEquals(2, mayfly.stats().records());
    }

    @Test
    @Timeout(10)
    void eventsComeAsTheyHappen(Mayfly mayfly) throws Exception {
        try (var events = mayfly.events("expired", "clock")) {
            assertEquals(Optional.empty(), events.next(Duration.ofMillis(1)));
            mayfly.clock().advance(Duration.ofMinutes(1));
            var types = List.of(events.next(), events.next()).stream().map(event -> event.type()).sorted().toList();
            assertEquals(List.of("clock", "expired"), types);
        }
        try (var events = mayfly.events(Follow.of("expired").target("cosmos:shop").after(0))) {
            var event = events.next();
            assertEquals("s2", event.expired().id());
            assertTrue(event.seq().getAsLong() > 0);
        }
        assertEquals(400, assertThrows(MayflyException.class, () -> mayfly.events("deaths")).status());
    }

    @Test
    void aRefusalHasTitleDetailAndHint(Mayfly mayfly) {
        var refusal = assertThrows(MayflyException.class, () -> mayfly.purge("cosmos:nowhere"));
        assertEquals("Not found", refusal.title());
        assertFalse(refusal.hint().isEmpty());
        assertEquals("there is no cosmos:nowhere", refusal.detail());
        assertEquals("404 Not found: there is no cosmos:nowhere; " + refusal.hint(), refusal.getMessage());
    }

    @ParameterizedTest
    @ValueSource(ints = {59, 60})
    void aRowOfATableHasItsServerToo(int seconds, Mayfly mayfly) {
        mayfly.clock().advance(Duration.ofSeconds(seconds));
        assertEquals(seconds < 60 ? 2 : 1, mayfly.stats().records());
    }

    @Nested
    class Inside {
        @Test
        void theSeedIsThatOfTheClassAround(Mayfly mayfly) {
            assertEquals(2, mayfly.stats().records());
        }
    }
}
