package mayflydb;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/** The server's clock. It stands still until it is moved, and a move returns when all that it makes due is purged. */
public final class Clock {
    private final Mayfly server;

    Clock(Mayfly server) {
        this.server = server;
    }

    public Instant now() {
        return Json.instant(server.get("clock").get("now"));
    }

    /** Move the clock through every deadline on the way. */
    public Move advance(Duration by) {
        return Move.of(server.post("clock/advance", Map.of("by", text(by))));
    }

    /** A duration as the admin API has it. */
    static String text(Duration span) {
        return Math.addExact(Math.multiplyExact(span.getSeconds(), 1_000_000L), span.getNano() / 1_000) + "us";
    }

    /** Move the clock to the next deadline, if there is one. */
    public Move advanceToNextExpiry() {
        return Move.of(server.post("clock/advance", Map.of("to", "next-expiry")));
    }

    /** Move the clock to an instant. An earlier one is refused while anything newer is stored. */
    public Move set(Instant to) {
        return Move.of(server.post("clock/set", Map.of("to", to.toString(), "force", true)));
    }

    public void freeze() {
        server.post("clock/freeze", Map.of());
    }

    /** Let the clock tick. */
    public void resume() {
        server.post("clock/resume", Map.of());
    }

    /** The next deadline; empty: no record expires. A deadline after the year 9999 is {@link Instant#MAX}. */
    public Optional<Instant> nextExpiry() {
        return Optional.ofNullable(server.get("clock").get("next_expiry")).map(Json::instant);
    }
}
