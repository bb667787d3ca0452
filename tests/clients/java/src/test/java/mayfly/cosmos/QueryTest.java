package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.BridgeInternal;
import com.azure.cosmos.implementation.QueryMetrics;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Queries over one partition key range and over three: merged by the client, page by page. */
class QueryTest extends CosmosTest {
    private static final int ITEMS = 90;
    private static final Map<Integer, String> CONTAINERS = Map.of(1, "narrow", 3, "wide");

    /** Items `000` to `089` with `n`, `third` (n modulo 3) and `tag`, in ten logical partitions. */
    @BeforeAll
    static void fill() {
        for (var each : CONTAINERS.entrySet()) {
            var properties = definition(null).setId(each.getValue());
            Items items = create(Flavour.GATEWAY, properties, each.getKey() == 1 ? 400 : SPREAD);
            for (int n = 0; n < ITEMS; n++) {
                items.create(item("%03d".formatted(n), "p" + n % 10)
                        .put("n", n)
                        .put("third", n % 3)
                        .put("tag", n % 2 == 0 ? "even" : "odd"));
            }
        }
    }

    static Stream<Arguments> everywhere() {
        return Stream.of(Flavour.values())
                .flatMap(flavour -> CONTAINERS.keySet().stream().sorted().map(ranges -> Arguments.of(flavour, ranges)));
    }

    private static Items filled(Flavour flavour, int ranges) {
        return open(flavour, CONTAINERS.get(ranges));
    }

    private static List<Integer> upTo(int end) {
        return IntStream.range(0, end).boxed().toList();
    }

    private static List<Integer> numbers(List<JsonNode> rows) {
        return rows.stream().map(JsonNode::intValue).toList();
    }

    // --- pages --------------------------------------------------------------------------------------------------------

    /** All rows, page by page, each page fetched by a query of its own that goes on from the token of the one before. */
    private static List<JsonNode> resumed(Items items, String text, int size) {
        List<JsonNode> rows = new ArrayList<>();
        String token = null;
        do {
            var page = items.pages(new SqlQuerySpec(text), new CosmosQueryRequestOptions(), token, size)
                    .findFirst()
                    .orElseThrow();
            assertTrue(page.getResults().size() <= size);
            rows.addAll(page.getResults());
            token = page.getContinuationToken();
        } while (token != null);
        return rows;
    }

    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void withoutOrderEveryRowComesOnce(Flavour flavour, int ranges) {
        for (int size : new int[] {7, 100}) {
            List<JsonNode> rows = resumed(filled(flavour, ranges), "SELECT VALUE c.n FROM c WHERE c.n >= 0", size);
            assertEquals(ITEMS, rows.size());
            assertEquals(new TreeSet<>(upTo(ITEMS)), new TreeSet<>(numbers(rows)));
        }
    }

    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void orderHoldsOverPages(Flavour flavour, int ranges) {
        Items items = filled(flavour, ranges);
        List<Integer> ascending = upTo(ITEMS);
        assertEquals(ascending, numbers(resumed(items, "SELECT VALUE c.n FROM c ORDER BY c.n", 7)));
        List<Integer> descending = ascending.stream().map(n -> ITEMS - 1 - n).toList();
        assertEquals(descending, numbers(resumed(items, "SELECT VALUE c.n FROM c ORDER BY c.n DESC", 7)));
    }

    /** Where sort keys are equal the client skips, on going on, what comes before the last rid: none is lost or told twice. */
    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void equalSortKeysAreNotLostOverPages(Flavour flavour, int ranges) {
        for (String direction : List.of("ASC", "DESC")) {
            List<JsonNode> rows =
                    resumed(filled(flavour, ranges), "SELECT c.third, c.n FROM c ORDER BY c.third " + direction, 7);
            List<Integer> keys = rows.stream().map(row -> row.get("third").intValue()).toList();
            Comparator<Integer> order = direction.equals("ASC") ? Comparator.naturalOrder() : Comparator.reverseOrder();
            assertEquals(keys.stream().sorted(order).toList(), keys);
            assertEquals(ITEMS, rows.size());
            assertEquals(ITEMS, rows.stream().map(row -> row.get("n")).distinct().count());
        }
    }

    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void withinALogicalPartition(Flavour flavour, int ranges) {
        var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("p3"));
        var text = new SqlQuerySpec("SELECT VALUE c.n FROM c ORDER BY c.n DESC");
        List<JsonNode> rows = filled(flavour, ranges)
                .pages(text, options, null, 4)
                .flatMap(page -> page.getResults().stream())
                .toList();
        assertEquals(List.of(83, 73, 63, 53, 43, 33, 23, 13, 3), numbers(rows));
    }

    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void parameters(Flavour flavour, int ranges) {
        var text = new SqlQuerySpec(
                "SELECT VALUE c.n FROM c WHERE c.tag = @tag AND c.n < @n ORDER BY c.n",
                new SqlParameter("@tag", "odd"),
                new SqlParameter("@n", 10));
        List<JsonNode> rows = filled(flavour, ranges)
                .pages(text, new CosmosQueryRequestOptions(), null, 100)
                .flatMap(page -> page.getResults().stream())
                .toList();
        assertEquals(List.of(1, 3, 5, 7, 9), numbers(rows));
    }

    // --- what the client merges ---------------------------------------------------------------------------------------

    /** This client adds numbers up as doubles. */
    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void merged(Flavour flavour, int ranges) {
        Items items = filled(flavour, ranges);
        Map<String, String> rows = Map.ofEntries(
                Map.entry("SELECT VALUE COUNT(1) FROM c", "[90]"),
                Map.entry("SELECT VALUE SUM(c.n) FROM c", "[4005.0]"),
                Map.entry("SELECT VALUE AVG(c.n) FROM c", "[44.5]"),
                Map.entry("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 5", "[6]"),
                Map.entry("SELECT VALUE MAX(c.n) FROM c", "[89]"),
                Map.entry("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC", "[89,88,87]"),
                Map.entry("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 40 LIMIT 3", "[40,41,42]"),
                Map.entry("SELECT DISTINCT VALUE c.third FROM c ORDER BY c.third", "[0,1,2]"),
                Map.entry("SELECT VALUE COUNT(1) FROM c WHERE c.n < 0", "[0]"));
        rows.forEach((text, expected) -> assertEquals(expected, items.query(text).toString().replace(" ", ""), text));
        List<JsonNode> groups = items.query("SELECT c.tag, COUNT(1) AS many, SUM(c.n) AS total FROM c GROUP BY c.tag");
        var found = new TreeSet<>(groups.stream().map(JsonNode::toString).toList());
        assertEquals(
                new TreeSet<>(List.of(
                        "{\"tag\":\"even\",\"many\":45,\"total\":1980.0}", "{\"tag\":\"odd\",\"many\":45,\"total\":2025.0}")),
                found);
    }

    // --- many items at once -------------------------------------------------------------------------------------------

    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void readMany(Flavour flavour, int ranges) {
        List<CosmosItemIdentity> places = new ArrayList<>();
        for (int n = 0; n < 40; n++) {
            places.add(new CosmosItemIdentity(new PartitionKey("p" + n % 10), "%03d".formatted(n)));
        }
        places.add(new CosmosItemIdentity(new PartitionKey("p1"), "none"));
        var found = filled(flavour, ranges).readMany(places).getResults();
        assertEquals(
                new TreeSet<>(upTo(40)), new TreeSet<>(found.stream().map(item -> item.get("n").intValue()).toList()));
        assertEquals(40, found.size());
    }

    @ParameterizedTest(name = "{0} over {1}")
    @MethodSource("everywhere")
    void readAllItems(Flavour flavour, int ranges) {
        var found = filled(flavour, ranges).readAll("p4");
        assertEquals(
                List.of(4, 14, 24, 34, 44, 54, 64, 74, 84),
                found.stream().map(item -> item.get("n").intValue()).sorted().toList());
    }

    // --- metrics ------------------------------------------------------------------------------------------------------

    /** The client asks for them by default, and reads each without looking whether it is there. */
    @ParameterizedTest
    @EnumSource
    void metrics(Flavour flavour) {
        Items items = container(flavour, null);
        for (int n = 0; n < 20; n++) {
            items.create(item("i" + n, "p").put("n", n));
        }
        FeedResponse<JsonNode> page = items
                .pages(new SqlQuerySpec("SELECT * FROM c WHERE c.n < 5"), new CosmosQueryRequestOptions(), null, 100)
                .findFirst()
                .orElseThrow();
        QueryMetrics metrics = QueryMetrics.createFromCollection(
                BridgeInternal.queryMetricsFromFeedResponse(page).values());
        assertEquals(20, metrics.getRetrievedDocumentCount());
        assertEquals(5, metrics.getOutputDocumentCount());
        assertTrue(metrics.getRetrievedDocumentSize() > metrics.getOutputDocumentCount());
        assertTrue(metrics.getTotalQueryExecutionTime().toNanos() >= 0);
        assertTrue(page.getRequestCharge() > 0);
    }
}
