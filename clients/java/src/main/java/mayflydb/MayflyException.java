package mayflydb;

import java.util.Map;

/** A refusal of the admin API: its problem document. The message has all of it. */
public final class MayflyException extends RuntimeException {
    private final int status;
    private final String title;
    private final String detail;
    private final String hint;

    MayflyException(int status, Map<String, ?> problem) {
        super(message(status, problem));
        this.status = status;
        title = member(problem, "title");
        detail = member(problem, "detail");
        hint = member(problem, "hint");
    }

    /** The status of HTTP. */
    public int status() {
        return status;
    }

    public String title() {
        return title;
    }

    public String detail() {
        return detail;
    }

    /** The next thing to try; often empty. */
    public String hint() {
        return hint;
    }

    private static String message(int status, Map<String, ?> problem) {
        String text = (status + " " + member(problem, "title")).strip();
        text += member(problem, "detail").isEmpty() ? "" : ": " + member(problem, "detail");
        return text + (member(problem, "hint").isEmpty() ? "" : "; " + member(problem, "hint"));
    }

    private static String member(Map<String, ?> problem, String name) {
        return problem.get(name) instanceof String text ? text : "";
    }
}
