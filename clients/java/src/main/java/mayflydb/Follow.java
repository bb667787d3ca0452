package mayflydb;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The events that a stream has.
 *
 * @param types some of expired, purged, write, clock and reset; none: all but write
 * @param target a container or a database, whose records alone are followed; null: all
 * @param after the number of an expiry event, behind which the stream begins; 0: with the first; null: now
 */
public record Follow(List<String> types, String target, Long after) {
    /** Events of these types, from now on. */
    public static Follow of(String... types) {
        return new Follow(List.of(types), null, null);
    }

    /** The same, of one container or database. */
    public Follow target(String target) {
        return new Follow(types, target, after);
    }

    /** The same, behind an expiry event; 0: with the first. */
    public Follow after(long seq) {
        return new Follow(types, target, seq);
    }

    String path() {
        Map<String, Object> query = new LinkedHashMap<>();
        query.put("types", types.isEmpty() ? null : String.join(",", types));
        query.put("target", target);
        query.put("after", after);
        return Calls.withQuery("events", query);
    }
}
