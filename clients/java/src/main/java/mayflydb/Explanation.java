package mayflydb;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * When and why one record expires, or why it does not.
 *
 * @param state alive, hidden, or due: expired, and visible until it is purged
 */
public record Explanation(String state, Optional<Instant> deadline, String reason, String text) {
    static Explanation of(Map<String, Object> answer) {
        return new Explanation(
                (String) answer.get("state"),
                Optional.ofNullable(answer.get("deadline")).map(Json::instant),
                (String) answer.get("reason"),
                (String) answer.get("text"));
    }
}
