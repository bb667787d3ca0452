package mayflydb;

import java.util.Map;

/** A refusal of the admin API. */
public final class MayflyException extends RuntimeException {
    private final int status;

    MayflyException(int status, Map<String, Object> problem) {
        super(problem.getOrDefault("detail", problem.getOrDefault("title", "status " + status))
                + (problem.containsKey("hint") ? "; " + problem.get("hint") : ""));
        this.status = status;
    }

    /** The status of HTTP. */
    public int status() {
        return status;
    }
}
