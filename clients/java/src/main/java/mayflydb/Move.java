package mayflydb;

import java.time.Instant;
import java.util.Map;

/** What a move of the clock did: deadlines that it passed, and records that it purged. */
public record Move(Instant now, long expired, long purged) {
    /** A step back answers with the clock alone. */
    static Move of(Map<String, Object> answer) {
        return new Move(Json.instant(answer.get("now")), Json.number(answer.get("expired")), Json.number(answer.get("purged")));
    }
}
