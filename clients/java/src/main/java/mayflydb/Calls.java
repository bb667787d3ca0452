package mayflydb;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Requests to the admin API, each with a time limit, and its refusals. */
final class Calls {
    private final String base;
    private final HttpClient http = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .proxy(HttpClient.Builder.NO_PROXY)
            .build();

    volatile Duration timeout = Program.PATIENCE;

    Calls(String base) {
        this.base = base;
    }

    /** Send a request, with a body of JSON or none (an empty text), and return the text of the answer. */
    String send(String method, String path, String body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + "/" + path));
        request.method(method, HttpRequest.BodyPublishers.ofString(body));
        if (!body.isEmpty()) {
            request.header("content-type", "application/json");
        }
        var answer = await(method, path, http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString()));
        if (answer.statusCode() >= 300) {
            throw refusal(answer.statusCode(), answer.body());
        }
        return answer.body();
    }

    /** Open a stream of bytes. */
    InputStream open(String path, Map<String, String> headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + "/" + path));
        headers.forEach(request::header);
        var answer = await("GET", path, http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofInputStream()));
        if (answer.statusCode() == 200) {
            return answer.body();
        }
        try (InputStream body = answer.body()) {
            throw refusal(answer.statusCode(), new String(body.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A path with a query of the members that are not null. */
    static String withQuery(String path, Map<String, ?> members) {
        StringBuilder out = new StringBuilder(path);
        char next = '?';
        for (Map.Entry<String, ?> each : members.entrySet()) {
            if (each.getValue() != null) {
                out.append(next).append(each.getKey()).append('=');
                out.append(URLEncoder.encode(each.getValue().toString(), StandardCharsets.UTF_8));
                next = '&';
            }
        }
        return out.toString();
    }

    private <T> T await(String method, String path, CompletableFuture<T> answer) {
        try {
            return answer.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException error) {
            answer.cancel(true);
            throw new UncheckedIOException(new HttpTimeoutException("no answer to " + method + " " + path + " within " + timeout));
        } catch (ExecutionException error) {
            throw error.getCause() instanceof IOException cause
                    ? new UncheckedIOException(cause)
                    : new IllegalStateException(error.getCause());
        } catch (InterruptedException interruption) {
            answer.cancel(true);
            Thread.currentThread().interrupt();
            throw new IllegalStateException(interruption);
        }
    }

    private static MayflyException refusal(int status, String said) {
        try {
            return new MayflyException(status, Json.object(said));
        } catch (IllegalArgumentException | ClassCastException noProblem) {
            return new MayflyException(status, Map.of("detail", said));
        }
    }
}
