package mayfly;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Instant;

/** The Mayfly that the environment names, and its clock, which stands still unless it is moved. */
public final class Server {
    public static final Instant START = Instant.parse("2030-01-01T00:00:00Z");

    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private Server() {}

    /** An address, a key or a path that the run was started with. */
    public static String variable(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalStateException(name + " is not set: tests/clients/conftest.py starts a server and sets it");
        }
        return value;
    }

    /** Forgets everything, and sets the clock back to START. */
    public static void begin() {
        post("reset", "{}");
    }

    /** Moves the clock by whole seconds, and purges on the way what a server that runs would have purged. */
    public static void advance(long seconds) {
        post("clock/advance", "{\"seconds\": " + seconds + "}");
    }

    private static void post(String path, String body) {
        URI uri = URI.create(variable("MAYFLY_ADMIN") + "/" + path);
        HttpRequest request = HttpRequest.newBuilder(uri)
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        try {
            HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(path + ": " + answer.body());
            }
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
