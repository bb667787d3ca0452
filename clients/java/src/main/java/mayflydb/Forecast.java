package mayflydb;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** Deadlines by bucket. Exact is false where the counts are estimates. */
public record Forecast(List<Bucket> buckets, long dueNow, long inHorizon, long later, long never, boolean exact) {
    /** The deadlines after {@code from}, up to {@code to}. */
    public record Bucket(Instant from, Instant to, long count) {
        static Bucket of(Map<String, Object> row) {
            return new Bucket(Json.instant(row.get("from")), Json.instant(row.get("to")), Json.number(row.get("count")));
        }
    }

    static Forecast of(Map<String, Object> answer) {
        return new Forecast(
                Json.rows(answer.get("buckets")).map(Bucket::of).toList(),
                Json.number(answer.get("due_now")),
                Json.number(answer.get("in_horizon")),
                Json.number(answer.get("later")),
                Json.number(answer.get("never")),
                (Boolean) answer.get("exact"));
    }
}
