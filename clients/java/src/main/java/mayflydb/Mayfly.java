package mayflydb;

import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A running server in memory, on free ports, with a clock that stands still until it is moved. */
public final class Mayfly implements AutoCloseable {
    private static final String PLAIN_HTTP = "COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED";

    private final Program program;
    private final Map<String, Object> ready;
    private final Clock clock = new Clock(this);
    private final Calls calls;
    private volatile boolean stopped;

    private Mayfly(Program program) {
        this.program = program;
        this.ready = Json.object(program.ready);
        this.calls = new Calls(admin());
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
        stopped = true;
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
        return expired(null);
    }

    /** The records of one container or database that age removed. */
    public List<Expired> expired(String target) {
        List<Expired> found = new ArrayList<>();
        for (long after = -1, next = 0; next != after; ) {
            after = next;
            Map<String, Object> page = get("events/expired", "after", after, "target", target);
            Json.rows(page.get("events")).map(Expired::of).forEach(found::add);
            next = Json.number(page.get("last"));
        }
        return found;
    }

    /** Open a stream of events of these types, from now on; without types, of all but write. */
    public Events events(String... types) {
        return events(Follow.of(types));
    }

    /** Open a stream of events. */
    public Events events(Follow follow) {
        return new Events(calls, follow, () -> stopped);
    }

    /** Make what a resource document in a .json file describes. What is there with the same content stays. */
    public Seeded seed(Path file) throws IOException {
        if (!file.toString().toLowerCase(Locale.ROOT).endsWith(".json")) {
            throw new IllegalArgumentException(
                    "seed reads .json files, and not " + file + ": mayfly apply reads TOML, YAML, YQL and folders");
        }
        return seed(Files.readString(file));
    }

    /** Make what a resource document describes, in JSON. */
    public Seeded seed(String document) {
        return Seeded.of(Json.object(call("POST", "apply", document)));
    }

    /** Make what a resource document describes: maps, lists, strings, numbers, booleans and null. */
    public Seeded seed(Map<String, ?> document) {
        return seed(Json.write(document));
    }

    /** Save everything that is stored, and the clock, in the place of a snapshot of that name. Snapshots outlive a reset. */
    public Snapshot snapshot(String name) {
        return Snapshot.of(Json.object(call("PUT", snapshotPath(name), "")));
    }

    /** Replace everything by a snapshot, and return the clock to its instant. */
    public void restore(String name) {
        call("POST", snapshotPath(name) + "/restore", "");
    }

    public void deleteSnapshot(String name) {
        call("DELETE", snapshotPath(name), "");
    }

    public List<Snapshot> snapshots() {
        return Json.rows(get("snapshots").get("snapshots")).map(Snapshot::of).toList();
    }

    /** Count what is stored. */
    public Stats stats() {
        return Stats.of(get("stats"));
    }

    /**
     * Count what a change of TTL settings would expire. It changes nothing.
     *
     * @param change the members of the admin API: {@code Map.of("default_ttl", 300)}; a null is off, and -1 on without a default
     */
    public Preview preview(String target, Map<String, ?> change) {
        Map<String, Object> body = new LinkedHashMap<>(change);
        body.put("target", target);
        return Preview.of(post("ttl/preview", body));
    }

    /** Count the deadlines of everything from now to a horizon. */
    public Forecast forecast(Duration horizon, int buckets) {
        return forecast(horizon, buckets, null);
    }

    /** Count the deadlines of one container or database. */
    public Forecast forecast(Duration horizon, int buckets, String target) {
        return Forecast.of(get("ttl/forecast", "horizon", Clock.text(horizon), "buckets", buckets, "target", target));
    }

    /** Tell when and why a document or a row expires, or why it does not. */
    public Explanation explain(String target, String id) {
        return Explanation.of(get("ttl/explain", "target", target, "id", id));
    }

    /** Tell when and why an item of Cosmos DB expires, by the value of its partition key: a list for a hierarchical one. */
    public Explanation explain(String target, String id, Object pk) {
        return Explanation.of(get("ttl/explain", "target", target, "id", id, "pk", Json.write(pk)));
    }

    /** The certificate authority in PEM, for clients that use https. */
    public String certificate() {
        return call("GET", "cert", "");
    }

    /** Call an operation of the admin API by its path below /_mayfly, with a body of JSON or none, and return its answer. */
    public String call(String method, String path, String body) {
        return calls.send(method, path, body);
    }

    /** Bound each later call, such as a move of the clock. At first that is a minute. */
    public void setRequestTimeout(Duration timeout) {
        calls.timeout = timeout;
    }

    /** Names and values of the query in turn; what is null is left out. */
    Map<String, Object> get(String path, Object... query) {
        Map<String, Object> members = new LinkedHashMap<>();
        for (int n = 0; n < query.length; n += 2) {
            members.put((String) query[n], query[n + 1]);
        }
        return Json.object(call("GET", Calls.withQuery(path, members), ""));
    }

    Map<String, Object> post(String path, Map<String, ?> body) {
        return Json.object(call("POST", path, Json.write(body)));
    }

    private static String snapshotPath(String name) {
        return "snapshots/" + URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private String address(String protocol, String name) {
        Object found = ready.get(protocol);
        if (found == null) {
            throw new IllegalStateException("this server does not serve " + protocol);
        }
        return (String) Json.members(found).get(name);
    }
}
