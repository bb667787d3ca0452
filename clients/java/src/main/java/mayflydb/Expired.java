package mayflydb;

import java.time.Instant;
import java.util.Map;

/**
 * One record that age removed.
 *
 * @param target its container: cosmos:shop/sessions, mongo:app.otps, ydb:/local/carts
 * @param pk the value of the partition key; null for documents of MongoDB
 * @param due its deadline
 * @param reason the rule: the container's default, the item's own ttl, a date index, or a TTL column
 */
public record Expired(String target, String id, Object pk, Instant due, Instant purgedAt, String reason) {
    static Expired of(Map<String, Object> row) {
        return new Expired(
                (String) row.get("target"),
                (String) row.get("id"),
                row.get("pk"),
                Json.instant(row.get("due")),
                Json.instant(row.get("purged_at")),
                (String) row.get("reason"));
    }
}
