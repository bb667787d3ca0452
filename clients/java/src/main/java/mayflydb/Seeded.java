package mayflydb;

import java.util.Map;

/** What a resource document made; same: what was there with the same content. */
public record Seeded(long created, long changed, long same) {
    static Seeded of(Map<String, Object> answer) {
        return new Seeded(Json.number(answer.get("created")), Json.number(answer.get("changed")), Json.number(answer.get("same")));
    }
}
