package mayflydb;

import java.time.Instant;
import java.util.Map;

/** Everything that was stored at an instant, with the clock. */
public record Snapshot(String name, Instant savedAt, long bytes) {
    static Snapshot of(Map<String, Object> row) {
        return new Snapshot((String) row.get("name"), Json.instant(row.get("saved_at")), Json.number(row.get("bytes")));
    }
}
