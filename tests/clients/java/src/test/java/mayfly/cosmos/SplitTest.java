package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** More throughput than its ranges carry splits a container, while the client remembers them as they were. */
class SplitTest extends BothModesTest {
    private static final int ITEMS = 60;

    private CosmosContainer filled() {
        var container = fresh(definition(null));
        for (int n = 0; n < ITEMS; n++) {
            container.createItem(item("i" + n, "p" + n % 20).put("n", n));
        }
        return container;
    }

    /** Another client does it, so that nothing tells this one. */
    private void split(CosmosContainer container) {
        try (var other = mode.builder().buildClient()) {
            var same = other.getDatabase("shop").getContainer(container.getId());
            same.replaceThroughput(ThroughputProperties.createManualThroughput(SPREAD));
            assertEquals(3, same.getFeedRanges().size());
        }
    }

    private static List<Integer> numbers(FeedResponse<ObjectNode> page) {
        return page.getResults().stream().map(item -> item.get("n").intValue()).toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT * FROM c ORDER BY c.n DESC"})
    void aQueryGoesOn(String text) {
        CosmosContainer container = filled();
        List<Integer> found = new ArrayList<>();
        var pages = container
                .queryItems(text, new CosmosQueryRequestOptions(), ObjectNode.class)
                .iterableByPage(7)
                .iterator();
        found.addAll(numbers(pages.next()));
        split(container);
        pages.forEachRemaining(page -> found.addAll(numbers(page)));
        List<Integer> all = IntStream.range(0, ITEMS).boxed().toList();
        assertEquals(ITEMS, found.size());
        assertEquals(new TreeSet<>(all), new TreeSet<>(found));
    }

    @ParameterizedTest
    @CsvSource({"SELECT * FROM c, false", "SELECT * FROM c ORDER BY c.n, true"})
    void aTokenGoesOn(String text, boolean ordered) {
        CosmosContainer container = filled();
        var query = container.queryItems(text, new CosmosQueryRequestOptions(), ObjectNode.class);
        var first = query.iterableByPage(7).iterator().next();
        split(container);
        List<Integer> found = new ArrayList<>(numbers(first));
        query.iterableByPage(first.getContinuationToken(), 7).forEach(page -> found.addAll(numbers(page)));
        List<Integer> all = IntStream.range(0, ITEMS).boxed().toList();
        assertEquals(ITEMS, found.size());
        assertEquals(all, ordered ? found : found.stream().sorted().toList());
    }

    @Test
    void aChangeFeedGoesOn() {
        CosmosContainer container = filled();
        var start = CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
        var first = container
                .queryChangeFeed(start.setMaxItemCount(25), ObjectNode.class)
                .iterableByPage()
                .iterator()
                .next();
        split(container);
        var found = new ArrayList<>(numbers(first));
        var rest = CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(first.getContinuationToken());
        container.queryChangeFeed(rest, ObjectNode.class).iterableByPage().forEach(page -> found.addAll(numbers(page)));
        assertEquals(IntStream.range(0, ITEMS).boxed().toList(), found.stream().sorted().toList());
    }

    @Test
    void itemsAreFoundWhereTheyHaveGone() {
        CosmosContainer container = filled();
        split(container);
        assertEquals(7, container.readItem("i7", new PartitionKey("p7"), ObjectNode.class).getItem().get("n").intValue());
        List<CosmosItemIdentity> places = IntStream.range(0, ITEMS)
                .mapToObj(n -> new CosmosItemIdentity(new PartitionKey("p" + n % 20), "i" + n))
                .toList();
        assertEquals(ITEMS, container.readMany(places, ObjectNode.class).getResults().size());
    }

    @Test
    void aBulkGoesOn() {
        CosmosContainer container = filled();
        split(container);
        List<CosmosItemOperation> upserts = new ArrayList<>();
        for (int n = 0; n < ITEMS; n++) {
            String key = "p" + n % 20;
            var item = item("i" + n, key).put("n", n).put("again", true);
            upserts.add(CosmosBulkOperations.getUpsertItemOperation(item, new PartitionKey(key)));
        }
        for (var answer : container.<Object>executeBulkOperations(upserts)) {
            assertNull(answer.getException());
            assertEquals(200, answer.getResponse().getStatusCode());
        }
        var query = "SELECT * FROM c WHERE c.again";
        assertEquals(
                ITEMS,
                container.queryItems(query, new CosmosQueryRequestOptions(), ObjectNode.class).stream().count());
    }
}
