package mayflydb;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a change of TTL settings would expire.
 *
 * @param expireWithin by the spans 1h, 1d and 7d
 * @param ownTtl records with a ttl of their own
 * @param reappearNow records that are hidden now, and visible under the new rules
 * @param exact false: the counts are estimates
 * @param sample ids of records that would expire at once
 */
public record Preview(
        long records,
        long expireNow,
        Map<String, Long> expireWithin,
        long ownTtl,
        long never,
        long reappearNow,
        boolean exact,
        List<String> sample) {
    static Preview of(Map<String, Object> answer) {
        Map<String, Long> within = new LinkedHashMap<>();
        Json.members(answer.get("expire_within")).forEach((span, count) -> within.put(span, Json.number(count)));
        return new Preview(
                Json.number(answer.get("records")),
                Json.number(answer.get("expire_now")),
                within,
                Json.number(answer.get("own_ttl")),
                Json.number(answer.get("never")),
                Json.number(answer.get("reappear_now")),
                (Boolean) answer.get("exact"),
                ((List<?>) answer.get("sample")).stream().map(String.class::cast).toList());
    }
}
