package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.IndexingMode;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import mayfly.Server;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** What may stand in `ttl` and `defaultTtl`, for each way to write an item. */
class TtlValuesTest extends CosmosTest {
    private static final int DEFAULT = 1000;

    /** The text of a value that counts, and for how many seconds. */
    private static final Map<String, Integer> GOOD =
            Map.of("1", 1, "20", 20, "2147483647", MOST, "-1", NEVER, "5.0", 5, "5e0", 5);

    private static final List<String> BAD = List.of(
            "0", "-0", "-2", "-10", "-2147483648", "2147483648", "4294967296", "9007199254740993", "1" + "0".repeat(30),
            "1.5", "0.1", "-1.5", "2147483647.5",
            "null", "\"5\"", "\"-1\"", "\"\"", "\"PT5S\"", "true", "false",
            "[]", "[5]", "{}", "{\"ttl\":5}");

    /** Other places and cases are plain data. */
    private static final Map<String, String> ELSEWHERE = Map.of("TTL", "5", "_ttl", "5", "a", "{\"ttl\":5}");

    static Stream<Arguments> verbs() {
        return Stream.of(Flavour.values())
                .flatMap(flavour -> Stream.of(Verb.values()).map(verb -> Arguments.of(flavour, verb)));
    }

    private static void written(Items items, Verb verb, String id, String member, String text) {
        verb.prepare(items, id);
        assertEquals(2, verb.write(items, id, member, text) / 100, text);
    }

    // --- ttl ----------------------------------------------------------------------------------------------------------

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("verbs")
    void aValidTtlCounts(Flavour flavour, Verb verb) {
        Items[] both = {container(flavour, -1), container(flavour, DEFAULT)};
        for (Items items : both) {
            GOOD.keySet().forEach(text -> {
                written(items, verb, text, "ttl", text);
                assertEquals(Double.parseDouble(text), items.read(text, "p").getItem().get("ttl").doubleValue());
            });
        }
        liveFor(GOOD, both);
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("verbs")
    void anInvalidTtlIsRefused(Flavour flavour, Verb verb) {
        for (Items items : List.of(container(flavour, -1), container(flavour, DEFAULT))) {
            verb.prepare(items, "1");
            List<ObjectNode> before = items.readAll("p");
            for (String text : BAD) {
                assertEquals(400, verb.write(items, "1", "ttl", text), text);
            }
            assertEquals(before, items.readAll("p"), "a refusal changes nothing");
        }
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("verbs")
    void otherPlacesAndCasesArePlainData(Flavour flavour, Verb verb) throws Exception {
        Map<Items, Integer> spans = Map.of(container(flavour, DEFAULT), DEFAULT, container(flavour, -1), NEVER);
        for (var container : spans.entrySet()) {
            Map<String, Integer> expected = new HashMap<>();
            for (var each : ELSEWHERE.entrySet()) {
                Items items = container.getKey();
                written(items, verb, each.getKey(), each.getKey(), each.getValue());
                var stored = items.read(each.getKey(), "p").getItem().get(each.getKey());
                assertEquals(JSON.readTree(each.getValue()), stored);
                expected.put(each.getKey(), container.getValue());
            }
            liveFor(expected, container.getKey());
        }
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("verbs")
    void aTtlWrittenWhileOffCountsOnceOn(Flavour flavour, Verb verb) {
        Items items = container(flavour, null);
        Map<String, Integer> left = new HashMap<>();
        GOOD.forEach((text, span) -> {
            written(items, verb, text, "ttl", text);
            left.put(text, span == NEVER ? NEVER : span - 10);
        });
        BAD.forEach(text -> {
            written(items, verb, "id of " + BAD.indexOf(text), "ttl", text);
            left.put("id of " + BAD.indexOf(text), DEFAULT - 10);
        });
        Server.advance(10);
        left.keySet().forEach(id -> assertEquals(true, isThere(items, id, "p"), id));
        items.setDefaultTtl(DEFAULT);
        for (String overdue : List.of("1", "5.0", "5e0")) {
            assertEquals(false, isThere(items, overdue, "p"));
            left.remove(overdue);
        }
        liveFor(left, items);
    }

    @ParameterizedTest(name = "{0}: the bad one is number {1}")
    @CsvSource({"GATEWAY, 0", "GATEWAY, 1", "GATEWAY, 2", "DIRECT, 0", "DIRECT, 1", "DIRECT, 2"})
    void oneBadTtlFailsABatch(Flavour flavour, int place) {
        Items items = container(flavour, DEFAULT);
        CosmosBatch batch = CosmosBatch.createCosmosBatch(new PartitionKey("p"));
        List<Integer> expected = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            batch.createItemOperation(item("i" + n, "p", "ttl", n == place ? "0" : "20"));
            expected.add(n == place ? 400 : 424);
        }
        var answer = items.batch(batch);
        assertEquals(expected, answer.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList());
        assertEquals(List.of(), items.readAll("p"));
    }

    // --- defaultTtl: this client can say integers of 32 bits alone ----------------------------------------------------

    @ParameterizedTest(name = "{0}: {1}")
    @CsvSource({
        "GATEWAY,", "GATEWAY, -1", "GATEWAY, 1", "GATEWAY, 1000", "GATEWAY, 2147483647",
        "DIRECT,", "DIRECT, -1", "DIRECT, 1", "DIRECT, 1000", "DIRECT, 2147483647"
    })
    void aDefaultThatIsTaken(Flavour flavour, Integer seconds) {
        Items created = container(flavour, seconds);
        Items replaced = container(flavour, 10);
        for (Items items : List.of(created, replaced)) {
            items.create(item("1", "p"));
        }
        replaced.setDefaultTtl(seconds);
        for (Items items : List.of(created, replaced)) {
            assertEquals(seconds, items.properties().getDefaultTimeToLiveInSeconds());
        }
        liveFor(Map.of("1", seconds == null ? NEVER : seconds), created, replaced);
    }

    @ParameterizedTest(name = "{0}: {1}")
    @CsvSource({"GATEWAY, 0", "GATEWAY, -2", "GATEWAY, -10", "DIRECT, 0", "DIRECT, -2", "DIRECT, -10"})
    void aDefaultThatIsRefused(Flavour flavour, int seconds) {
        refused(400, () -> container(flavour, seconds));
        Items items = container(flavour, 10);
        items.create(item("1", "p"));
        refused(400, () -> items.setDefaultTtl(seconds));
        assertEquals(10, items.properties().getDefaultTimeToLiveInSeconds());
        liveFor(Map.of("1", 10), items);
    }

    @ParameterizedTest
    @EnumSource
    void aDefaultNeedsAnIndex(Flavour flavour) {
        IndexingPolicy none = new IndexingPolicy().setIndexingMode(IndexingMode.NONE).setAutomatic(false);
        refused(400, () -> create(flavour, definition(60).setIndexingPolicy(none)));
        Items without = create(flavour, definition(null).setIndexingPolicy(none));
        refused(400, () -> without.setDefaultTtl(60));
        Items with = container(flavour, 60);
        CosmosContainerProperties changed = with.properties().setIndexingPolicy(none);
        refused(400, () -> with.replaceProperties(changed));
        assertEquals(60, with.properties().getDefaultTimeToLiveInSeconds());
    }
}
