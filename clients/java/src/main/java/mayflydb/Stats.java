package mayflydb;

import java.util.Map;

/** Counts of what is stored; records are visible ones. */
public record Stats(long databases, long containers, long records) {
    static Stats of(Map<String, Object> answer) {
        return new Stats(
                Json.number(answer.get("databases")), Json.number(answer.get("containers")), Json.number(answer.get("records")));
    }
}
