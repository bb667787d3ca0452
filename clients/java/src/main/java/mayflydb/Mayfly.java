package mayflydb;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A running server in memory, on free ports, with a clock that stands still until it is moved. */
public final class Mayfly implements AutoCloseable {
    private static final String PLAIN_HTTP = "COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED";

    private final Program program;
    private final Map<String, Object> ready;
    private final Clock clock = new Clock(this);
    private final HttpClient http =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Program.PATIENCE).build();

    private Mayfly(Program program) {
        this.program = program;
        this.ready = Json.object(program.ready);
    }

    /**
     * Start a server, with further flags of {@code mayfly serve}, and return when each of its listeners answers.
     *
     * <p>The program is that of the variable MAYFLY_COMMAND, or {@code mayfly} on the PATH. It ends with
     * this JVM. Azure's client takes addresses without TLS only if a system property allows them, so that is set here, unless it
     * has a value already.
     */
    public static Mayfly start(String... arguments) throws IOException {
        if (System.getProperty(PLAIN_HTTP) == null) {
            System.setProperty(PLAIN_HTTP, "true");
        }
        return new Mayfly(new Program(List.of(arguments)));
    }

    /** Stop the server. */
    @Override
    public void close() throws IOException {
        program.stop();
    }

    public Clock clock() {
        return clock;
    }

    public String cosmosEndpoint() {
        return address("cosmos", "endpoint");
    }

    public String cosmosKey() {
        return address("cosmos", "key");
    }

    public String cosmosConnectionString() {
        return "AccountEndpoint=" + cosmosEndpoint() + ";AccountKey=" + cosmosKey() + ";";
    }

    public String mongoUri() {
        return address("mongo", "uri");
    }

    /** Endpoint and database, as {@code GrpcTransport.forConnectionString} takes them. */
    public String ydbConnectionString() {
        return address("ydb", "endpoint") + address("ydb", "database");
    }

    /** The base of the admin API, without a slash at the end. */
    public String admin() {
        return (String) ready.get("admin");
    }

    /** The variables in which applications look for their databases. */
    public Map<String, String> env() {
        return Map.of(
                "COSMOS_ENDPOINT", cosmosEndpoint(),
                "COSMOS_KEY", cosmosKey(),
                "COSMOS_CONNECTION_STRING", cosmosConnectionString(),
                "MONGODB_URI", mongoUri(),
                "YDB_CONNECTION_STRING", ydbConnectionString());
    }

    /** Delete everything, and put the clock back to its start. */
    public void reset() {
        post("reset", Map.of());
    }

    /** Delete one container or database, such as cosmos:shop. */
    public void reset(String target) {
        post("reset", Map.of("target", target));
    }

    /** Purge everything that is due now, whatever the schedule, and return the number of records. */
    public long purge() {
        return Json.number(post("purge", Map.of()).get("purged"));
    }

    /** Purge what is due in one container or database. */
    public long purge(String target) {
        return Json.number(post("purge", Map.of("target", target)).get("purged"));
    }

    /** The records that age removed since the last reset, in the order of their purges. */
    public List<Expired> expired() {
        return expired("");
    }

    /** The records of one container or database that age removed. */
    public List<Expired> expired(String target) {
        List<Expired> found = new ArrayList<>();
        String only = target.isEmpty() ? "" : "&target=" + URLEncoder.encode(target, StandardCharsets.UTF_8);
        for (long after = -1, next = 0; next != after; ) {
            after = next;
            Map<String, Object> page = get("events/expired?after=" + after + only);
            for (Object row : (List<?>) page.get("events")) {
                found.add(Expired.of(castToObject(row)));
            }
            next = Json.number(page.get("last"));
        }
        return found;
    }

    /** The certificate authority in PEM, for clients that use https. */
    public String certificate() {
        return call("GET", "cert", "");
    }

    /** Call an operation of the admin API by its path below /_mayfly, with a body of JSON or none, and return its answer. */
    public String call(String method, String path, String body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(admin() + "/" + path))
                .method(method, HttpRequest.BodyPublishers.ofString(body))
                .timeout(Program.PATIENCE)
                .build();
        HttpResponse<String> answer;
        try {
            answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException interruption) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(interruption);
        }
        if (answer.statusCode() >= 300) {
            boolean problem = answer.headers().firstValue("content-type").orElse("").contains("json");
            throw new MayflyException(answer.statusCode(), problem ? Json.object(answer.body()) : Map.of("detail", answer.body()));
        }
        return answer.body();
    }

    Map<String, Object> get(String path) {
        return Json.object(call("GET", path, ""));
    }

    Map<String, Object> post(String path, Map<String, ?> body) {
        return Json.object(call("POST", path, Json.write(body)));
    }

    private String address(String protocol, String name) {
        Object found = ready.get(protocol);
        if (found == null) {
            throw new IllegalStateException("this server does not serve " + protocol);
        }
        return (String) castToObject(found).get(name);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> castToObject(Object value) {
        return (Map<String, Object>) value;
    }
}
