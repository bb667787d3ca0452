package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import mayfly.Server;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** A container's default and an item's own ttl: https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live. */
class TtlTest extends CosmosTest {
    private static final Integer OFF = null;
    private static final String NONE = null;

    static Stream<Arguments> lives() {
        List<Arguments> rows = new ArrayList<>();
        for (Flavour flavour : Flavour.values()) {
            rows.add(Arguments.of(flavour, OFF, NONE, NEVER));
            rows.add(Arguments.of(flavour, OFF, "-1", NEVER));
            rows.add(Arguments.of(flavour, OFF, "2000", NEVER));
            rows.add(Arguments.of(flavour, -1, NONE, NEVER));
            rows.add(Arguments.of(flavour, -1, "-1", NEVER));
            rows.add(Arguments.of(flavour, -1, "2000", 2000));
            rows.add(Arguments.of(flavour, 1000, NONE, 1000));
            rows.add(Arguments.of(flavour, 1000, "-1", NEVER));
            rows.add(Arguments.of(flavour, 1000, "2000", 2000));
            rows.add(Arguments.of(flavour, 1000, "500", 500));
            rows.add(Arguments.of(flavour, 10, NONE, 10));
            rows.add(Arguments.of(flavour, MOST, NONE, MOST));
        }
        return rows.stream();
    }

    @ParameterizedTest(name = "{0}: defaultTtl {1}, ttl {2}: {3}")
    @MethodSource("lives")
    void aLifeEndsAtItsDeadlineOnEveryPath(Flavour flavour, Integer defaultTtl, String ttl, int seconds) {
        Items items = container(flavour, defaultTtl);
        items.create(ttl == NONE ? item("1", "p") : item("1", "p", "ttl", ttl));
        ObjectNode stored = items.read("1", "p").getItem();
        if (ttl == NONE) {
            assertNull(stored.get("ttl"));
        } else {
            assertEquals(ttl, stored.get("ttl").asText(), "the property is kept, whether or not it counts");
        }
        Server.advance((seconds == NEVER ? MOST : seconds) - 1);
        assertEquals(List.of(1, 1, 1, 1, 1), seen(items));
        Server.advance(1);
        assertEquals(seconds == NEVER ? List.of(1, 1, 1, 1, 1) : List.of(0, 0, 0, 0, 0), seen(items));
    }

    /** How often a read, a query, an aggregate, the feed of a partition and a read of many find the item. */
    private static List<Integer> seen(Items items) {
        var place = new CosmosItemIdentity(new PartitionKey("p"), "1");
        return List.of(
                isThere(items, "1", "p") ? 1 : 0,
                items.query("SELECT * FROM c WHERE c.id = '1'").size(),
                items.query("SELECT VALUE COUNT(1) FROM c").get(0).intValue(),
                items.readAll("p").size(),
                items.readMany(List.of(place, new CosmosItemIdentity(new PartitionKey("p"), "other"))).getResults().size());
    }

    @ParameterizedTest
    @EnumSource
    void eachWriteBeginsAnewLife(Flavour flavour) {
        Items items = container(flavour, 10);
        items.create(item("1", "p"));
        for (Verb verb : List.of(Verb.UPSERT, Verb.REPLACE, Verb.PATCH)) {
            Server.advance(9);
            verb.write(items, "1", "n", "1");
        }
        liveFor(Map.of("1", 10), items);
    }

    @ParameterizedTest
    @EnumSource
    void theNameOfTheDeadIsFree(Flavour flavour) {
        Items items = container(flavour, 10);
        items.create(item("1", "p"));
        refused(409, () -> items.create(item("1", "p")));
        Server.advance(10);
        for (Verb verb : List.of(Verb.REPLACE, Verb.PATCH)) {
            assertEquals(404, verb.write(items, "1", "n", "1"));
        }
        refused(404, () -> items.delete("1", "p"));
        assertEquals(201, items.upsert(item("1", "p")).getStatusCode());
        liveFor(Map.of("1", 10), items);
    }

    @ParameterizedTest
    @EnumSource
    void theYear2038IsAYearLikeOthers(Flavour flavour) {
        end();
        begin();
        Items items = container(flavour, 1);
        Server.advance(MOST - Server.START.getEpochSecond());
        items.create(item("1", "p"));
        assertEquals(MOST, items.read("1", "p").getItem().get("_ts").longValue());
        liveFor(Map.of("1", 1), items);
    }

    @ParameterizedTest
    @EnumSource
    void anotherDefaultIsEverybodysAtOnce(Flavour flavour) {
        Items items = container(flavour, null);
        items.create(item("1", "p"));
        items.create(item("own", "p", "ttl", "500"));
        items.create(item("always", "p", "ttl", "-1"));
        Server.advance(100);
        items.setDefaultTtl(200);
        assertEquals(List.of(true, true, true), there(items));
        items.setDefaultTtl(100);
        assertEquals(List.of(false, true, true), there(items));
        items.setDefaultTtl(-1);
        Server.advance(399);
        assertEquals(List.of(true, true), there(items).subList(1, 3));
        Server.advance(1);
        assertEquals(List.of(false, true), there(items).subList(1, 3));
        items.setDefaultTtl(null);
        assertNull(items.properties().getDefaultTimeToLiveInSeconds());
    }

    private static List<Boolean> there(Items items) {
        return Stream.of("1", "own", "always").map(id -> isThere(items, id, "p")).toList();
    }
}
