package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.FeedRange;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import mayfly.Server;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The change feed in both modes, pulled and pushed. */
class ChangeFeedTest extends CosmosTest {
    private static final Duration KEPT = Duration.ofMinutes(10);
    private static final long PATIENCE_SECONDS = 60;

    /** What was read, and the token to go on from. */
    private record Read<T>(List<T> rows, String token) {}

    /** Reads until nothing is new; the client goes from range to range by itself. */
    private static <T> Read<T> read(Items items, CosmosChangeFeedRequestOptions options, Class<T> kind) {
        List<T> rows = new ArrayList<>();
        String[] token = new String[1];
        var pages = items instanceof Items.Sync sync
                ? sync.container().queryChangeFeed(options, kind).streamByPage().sequential()
                : ((Items.Async) items).container().queryChangeFeed(options, kind).byPage().toStream();
        pages.forEach(page -> {
            rows.addAll(page.getResults());
            token[0] = page.getContinuationToken();
        });
        return new Read<>(rows, token[0]);
    }

    private static Read<ObjectNode> latest(Items items, CosmosChangeFeedRequestOptions options) {
        return read(items, options, ObjectNode.class);
    }

    private static List<String> ids(List<ObjectNode> rows) {
        return rows.stream().map(row -> row.get("id").textValue()).toList();
    }

    private static CosmosChangeFeedRequestOptions from(String token) {
        return CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(token);
    }

    private static CosmosChangeFeedRequestOptions fromBeginning() {
        return CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
    }

    private static CosmosChangeFeedRequestOptions fromNow() {
        return CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange());
    }

    // --- latest version -----------------------------------------------------------------------------------------------

    @ParameterizedTest
    @EnumSource
    void theLatestVersionOfEachItem(Flavour flavour) {
        Items items = container(flavour, 10);
        String now = latest(items, fromNow()).token();
        List.of("a", "b", "c").forEach(id -> items.create(item(id, "p")));
        items.upsert(item("a", "p").put("n", 1));
        items.delete("b", "p");
        assertEquals(List.of("c", "a"), ids(latest(items, fromBeginning()).rows()));
        var read = latest(items, from(now));
        assertEquals(List.of("c", "a"), ids(read.rows()));
        assertEquals(1, read.rows().get(1).get("n").intValue());
        assertEquals(List.of(), latest(items, from(read.token())).rows());
        Server.advance(5);
        items.create(item("d", "p"));
        Instant written = Instant.ofEpochSecond(items.read("d", "p").getItem().get("_ts").longValue());
        var since = CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(written, FeedRange.forFullRange());
        assertEquals(List.of("d"), ids(latest(items, since).rows()));
        // What is dead is in no feed of this mode.
        Server.advance(5);
        assertEquals(List.of("d"), ids(latest(items, from(read.token())).rows()));
        assertEquals(List.of("d"), ids(latest(items, fromBeginning()).rows()));
    }

    @ParameterizedTest(name = "{0}, pages of {1}")
    @CsvSource({"GATEWAY, 7", "GATEWAY, 100", "DIRECT, 7"})
    void overThreeRanges(Flavour flavour, int size) {
        Items items = create(flavour, definition(null), SPREAD);
        var expected = new TreeSet<String>();
        for (int n = 0; n < 60; n++) {
            items.create(item("i" + n, "p" + n % 20));
            expected.add("i" + n);
        }
        var read = latest(items, fromBeginning().setMaxItemCount(size));
        assertEquals(60, read.rows().size());
        assertEquals(expected, new TreeSet<>(ids(read.rows())));
        items.upsert(item("i7", "p7"));
        assertEquals(List.of("i7"), ids(latest(items, from(read.token())).rows()));
    }

    // --- all versions and deletes -------------------------------------------------------------------------------------

    private static CosmosContainerProperties remembering(Integer defaultTtl) {
        return definition(defaultTtl)
                .setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(KEPT));
    }

    /** `create a`, `replace a`, `delete b`, and `expire c` for a death by age. */
    private static String brief(ChangeFeedProcessorItem row) {
        var metadata = row.getChangeFeedMetaData();
        String id = row.getCurrent() != null && row.getCurrent().has("id")
                ? row.getCurrent().get("id").textValue()
                : row.toJsonNode().get("metadata").get("id").textValue();
        String what = metadata.isTimeToLiveExpired() ? "expire" : metadata.getOperationType().toString().toLowerCase();
        return what + " " + id;
    }

    private static List<String> briefs(List<ChangeFeedProcessorItem> rows) {
        return rows.stream().map(ChangeFeedTest::brief).toList();
    }

    @ParameterizedTest
    @EnumSource
    void everyVersionAndEveryDeath(Flavour flavour) {
        Items items = create(flavour, remembering(10));
        String start = read(items, fromNow().allVersionsAndDeletes(), ChangeFeedProcessorItem.class).token();
        items.create(item("a", "p"));
        items.upsert(item("a", "p").put("n", 1));
        items.create(item("b", "p"));
        items.delete("b", "p");
        items.create(item("c", "p", "ttl", "5"));
        var read = read(items, from(start).allVersionsAndDeletes(), ChangeFeedProcessorItem.class);
        assertEquals(List.of("create a", "replace a", "create b", "delete b", "create c"), briefs(read.rows()));
        Server.advance(5);
        var deaths = read(items, from(read.token()).allVersionsAndDeletes(), ChangeFeedProcessorItem.class);
        assertEquals(List.of("expire c"), briefs(deaths.rows()));
        Server.advance(4);
        assertEquals(
                List.of(),
                read(items, from(deaths.token()).allVersionsAndDeletes(), ChangeFeedProcessorItem.class).rows());
        Server.advance(1);
        assertEquals(
                List.of("expire a"),
                briefs(read(items, from(deaths.token()).allVersionsAndDeletes(), ChangeFeedProcessorItem.class).rows()));
    }

    // --- processors ---------------------------------------------------------------------------------------------------

    /** Processors insist on the bodies of what they write to leases. */
    private static final Map<Flavour, CosmosAsyncClient> PROCESSING = new EnumMap<>(Flavour.class);

    @BeforeAll
    static void open() {
        for (Flavour flavour : Flavour.values()) {
            PROCESSING.put(flavour, flavour.builder().contentResponseOnWriteEnabled(true).buildAsyncClient());
        }
    }

    @AfterAll
    static void close() {
        PROCESSING.values().forEach(CosmosAsyncClient::close);
        PROCESSING.clear();
    }

    private static CosmosAsyncContainer async(Items items) {
        return ((Items.Async) items).container();
    }

    /** Polls quickly, so that the test need not wait. */
    private static ChangeFeedProcessorOptions polling() {
        return new ChangeFeedProcessorOptions().setFeedPollDelay(Duration.ofMillis(100));
    }

    /** A processor of changes, with its default lease options. */
    private static ChangeFeedProcessor processor(
            Flavour flavour, Items items, ChangeFeedProcessorOptions options,
            BiFunction<ChangeFeedProcessorBuilder, Consumer<String>, ChangeFeedProcessorBuilder> handle,
            BlockingQueue<String> told) {
        CosmosContainerProperties leases = new CosmosContainerProperties(definition(null).getId(), "/id");
        asyncClient.getDatabase("shop").createContainer(leases).block();
        var shop = PROCESSING.get(flavour).getDatabase("shop");
        var builder = new ChangeFeedProcessorBuilder()
                .hostName("host")
                .feedContainer(shop.getContainer(items.properties().getId()))
                .leaseContainer(shop.getContainer(leases.getId()))
                .options(options);
        return handle.apply(builder, told::add).buildChangeFeedProcessor();
    }

    private static List<String> take(BlockingQueue<String> told, int count) throws InterruptedException {
        List<String> taken = new ArrayList<>();
        while (taken.size() < count) {
            String next = told.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
            assertTrue(next != null, () -> "only " + taken + " came");
            taken.add(next);
        }
        return taken;
    }

    private static List<String> takeTo(String last, BlockingQueue<String> told) throws InterruptedException {
        List<String> taken = new ArrayList<>();
        while (!taken.contains(last)) {
            taken.addAll(take(told, 1));
        }
        return taken;
    }

    private static String idOf(JsonNode item) {
        return item.get("id").textValue();
    }

    @ParameterizedTest
    @EnumSource
    void aProcessorOfLatestVersions(Flavour flavour) throws InterruptedException {
        Items items = create(Flavour.DIRECT, definition(null), SPREAD);
        var told = new LinkedBlockingQueue<String>();
        var processor = processor(
                flavour,
                items,
                polling().setStartFromBeginning(true),
                (builder, say) -> builder.handleLatestVersionChanges(rows -> rows.forEach(row -> {
                    assertTrue(row.getChangeFeedMetaData().getLogSequenceNumber() > 0);
                    say.accept(idOf(row.getCurrent()));
                })),
                told);
        processor.start().block();
        var expected = new TreeSet<String>();
        for (int n = 0; n < 20; n++) {
            items.create(item("i" + n, "p" + n));
            expected.add("i" + n);
        }
        assertEquals(expected, new TreeSet<>(take(told, 20)));
        var state = processor.getCurrentState().block();
        assertEquals(async(items).getFeedRanges().block().size(), state.size());
        assertTrue(state.stream().allMatch(each -> each.getHostName().equals("host")));
        processor.stop().block();
    }

    @ParameterizedTest
    @EnumSource
    void aProcessorOfItems(Flavour flavour) throws InterruptedException {
        Items items = container(Flavour.DIRECT, null);
        var told = new LinkedBlockingQueue<String>();
        var processor = processor(
                flavour,
                items,
                polling().setStartFromBeginning(true),
                (builder, say) -> builder.handleChanges(rows -> rows.forEach(row -> say.accept(idOf(row)))),
                told);
        processor.start().block();
        List.of("a", "b").forEach(id -> items.create(item(id, "p")));
        assertEquals(List.of("a", "b"), take(told, 2));
        processor.stop().block();
        items.upsert(item("c", "p"));
        processor.start().block();
        // What was told and not yet noted in the lease comes again.
        assertTrue(List.of("a", "b", "c").containsAll(takeTo("c", told)));
        processor.stop().block();
    }

    @ParameterizedTest
    @EnumSource
    void aProcessorOfAllVersionsAndDeletes(Flavour flavour) throws InterruptedException {
        Items items = create(Flavour.DIRECT, remembering(-1));
        var told = new LinkedBlockingQueue<String>();
        var processor = processor(
                flavour,
                items,
                polling(),
                (builder, say) -> builder.handleAllVersionsAndDeletesChanges(
                        (List<ChangeFeedProcessorItem> rows) -> rows.forEach(row -> say.accept(brief(row)))),
                told);
        processor.start().block();
        // The feed begins with the first poll, so a first change is made until it is told.
        for (int n = 0; told.poll(1, TimeUnit.SECONDS) == null && n < PATIENCE_SECONDS; n++) {
            items.upsert(item("first", "p").put("n", n));
        }
        items.create(item("a", "p"));
        items.create(item("b", "p", "ttl", "5"));
        items.delete("a", "p");
        Server.advance(5);
        List<String> seen = takeTo("expire b", told);
        seen.removeIf(each -> each.endsWith("first"));
        assertEquals(List.of("create a", "create b", "delete a", "expire b"), seen);
        processor.stop().block();
    }
}
