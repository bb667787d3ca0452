using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.Json.Nodes;
using System.Text.RegularExpressions;

namespace MayflyDb;

/// <summary>A running server in memory, on free ports, with a clock that stands still until it is moved.</summary>
public sealed class Mayfly : IAsyncDisposable
{
    private const string Variable = "MAYFLY_COMMAND";
    private const int Tail = 4_000;

    private static readonly string[] Serve =
    [
        "serve", "--memory", "--clock", "virtual", "-p", "0", "--mongo-port", "0", "--ydb-port", "0", "--stop-with-stdin",
    ];

    private readonly Process _process;
    private readonly JsonNode _ready;
    private readonly Calls _calls;
    private volatile bool _stopped;

    private Mayfly(Process process, string ready, TimeSpan requestTimeout)
    {
        _process = process;
        _ready = JsonNode.Parse(ready)!;
        _calls = new Calls(Admin, requestTimeout);
        Clock = new Clock(this);
    }

    /// <summary>
    /// Start a server, with further flags of <c>mayfly serve</c>, and return when each of its listeners answers. The program is
    /// that of the variable MAYFLY_COMMAND, or <c>mayfly</c> on the PATH. It ends with this process,
    /// because its standard input does. Each call of the admin API may take <c>requestTimeout</c>, at first a minute.
    /// </summary>
    public static async Task<Mayfly> StartAsync(
        DateTimeOffset? start = null,
        IEnumerable<string>? arguments = null,
        TimeSpan? requestTimeout = null,
        CancellationToken cancellation = default)
    {
        using var patience = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        patience.CancelAfter(TimeSpan.FromMinutes(1));
        string[] clock = start is null ? [] : ["--clock-start", MayflyDb.Clock.Text(start.Value)];
        var process = Launch([.. Serve, .. clock, .. arguments ?? []]);
        var log = new StringBuilder();
        process.ErrorDataReceived += (_, line) =>
        {
            lock (log)
            {
                log.AppendLine(line.Data);
                log.Remove(0, Math.Max(0, log.Length - Tail));
            }
        };
        process.BeginErrorReadLine();
        string? ready = null;
        try
        {
            ready = await process.StandardOutput.ReadLineAsync(patience.Token).ConfigureAwait(false);
        }
        finally
        {
            if (ready is null)
            {
                process.Kill();
            }
        }
        if (ready is not null)
        {
            return new Mayfly(process, ready, requestTimeout ?? TimeSpan.FromMinutes(1));
        }
        await process.WaitForExitAsync(patience.Token).ConfigureAwait(false);
        lock (log)
        {
            throw new InvalidOperationException($"Mayfly did not start\n{log}");
        }
    }

    /// <summary>Stop the server.</summary>
    public async ValueTask DisposeAsync()
    {
        _stopped = true;
        _process.StandardInput.Close();
        using var patience = new CancellationTokenSource(TimeSpan.FromSeconds(10));
        try
        {
            await _process.WaitForExitAsync(patience.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            _process.Kill();
        }
        _process.Dispose();
        _calls.Dispose();
    }

    public Clock Clock { get; }

    /// <summary>The endpoint with TLS, which <c>CosmosClient</c> needs; see <see cref="CreateHandlerAsync"/>.</summary>
    public string CosmosEndpoint => Address("cosmos", "endpoint").Replace("http://", "https://", StringComparison.Ordinal);

    public string CosmosKey => Address("cosmos", "key");

    public string MongoUri => Address("mongo", "uri");

    public string YdbEndpoint => Address("ydb", "endpoint");

    public string YdbDatabase => Address("ydb", "database");

    /// <summary>The base of the admin API, without a slash at the end.</summary>
    public string Admin => _ready["admin"]!.GetValue<string>();

    /// <summary>Make a handler that trusts this server's certificate, and no other authority.</summary>
    public async Task<HttpMessageHandler> CreateHandlerAsync()
    {
        var pem = await CertificateAsync().ConfigureAwait(false);
        var authority = X509Certificate2.CreateFromPem(pem);
        return new HttpClientHandler
        {
            ServerCertificateCustomValidationCallback = (_, certificate, _, _) =>
            {
                using var chain = new X509Chain();
                chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
                chain.ChainPolicy.CustomTrustStore.Add(authority);
                chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
                return certificate is not null && chain.Build(certificate);
            },
        };
    }

    /// <summary>The certificate authority in PEM, for clients that use https.</summary>
    public Task<string> CertificateAsync() => _calls.SendAsync(HttpMethod.Get, "cert");

    /// <summary>Delete everything and put the clock back to its start; with a target, delete that alone.</summary>
    public Task ResetAsync(string? target = null) => CallAsync(HttpMethod.Post, "reset", Scope(target));

    /// <summary>Purge what is due now, whatever the schedule, and return the number of records.</summary>
    public async Task<long> PurgeAsync(string? target = null)
    {
        var answer = await CallAsync(HttpMethod.Post, "purge", Scope(target)).ConfigureAwait(false);
        return answer["purged"]!.GetValue<long>();
    }

    /// <summary>Make what a resource document in a .json file describes. What is there with the same content stays.</summary>
    public async Task<Seeded> SeedAsync(string path)
    {
        if (!path.EndsWith(".json", StringComparison.OrdinalIgnoreCase))
        {
            throw new ArgumentException(
                $"SeedAsync reads .json files, and not {path}: mayfly apply reads TOML, YAML, YQL and folders", nameof(path));
        }
        // As it is: the numbers of a file may have more digits than those of a JsonNode.
        var document = await File.ReadAllTextAsync(path).ConfigureAwait(false);
        return Seeded.Of(JsonNode.Parse(await _calls.SendAsync(HttpMethod.Post, "apply", document).ConfigureAwait(false))!);
    }

    /// <summary>Make what a resource document describes. What is there with the same content stays.</summary>
    public async Task<Seeded> SeedAsync(JsonObject document) =>
        Seeded.Of(await CallAsync(HttpMethod.Post, "apply", document).ConfigureAwait(false));

    /// <summary>Save everything that is stored, and the clock, in the place of a snapshot of that name. Snapshots outlive a reset.</summary>
    public async Task<Snapshot> SnapshotAsync(string name = "snapshot") =>
        Snapshot.Of(await CallAsync(HttpMethod.Put, SnapshotPath(name)).ConfigureAwait(false));

    /// <summary>Replace everything by a snapshot, and return the clock to its instant.</summary>
    public Task RestoreAsync(string name = "snapshot") => CallAsync(HttpMethod.Post, $"{SnapshotPath(name)}/restore");

    public Task DeleteSnapshotAsync(string name = "snapshot") => CallAsync(HttpMethod.Delete, SnapshotPath(name));

    public async Task<IReadOnlyList<Snapshot>> SnapshotsAsync()
    {
        var answer = await CallAsync(HttpMethod.Get, "snapshots").ConfigureAwait(false);
        return answer["snapshots"]!.AsArray().Select(row => Snapshot.Of(row!)).ToList();
    }

    /// <summary>Count what is stored.</summary>
    public async Task<Stats> StatsAsync() => Stats.Of(await CallAsync(HttpMethod.Get, "stats").ConfigureAwait(false));

    /// <summary>The records that age removed since the last reset, in the order of their purges.</summary>
    public async Task<IReadOnlyList<Expired>> ExpiredAsync(string? target = null)
    {
        var found = new List<Expired>();
        for (long after = -1, next = 0; next != after;)
        {
            after = next;
            var path = Calls.WithQuery("events/expired", ("after", after), ("target", target));
            var page = await CallAsync(HttpMethod.Get, path).ConfigureAwait(false);
            found.AddRange(page["events"]!.AsArray().Select(row => Expired.Of(row!)));
            next = page["last"]!.GetValue<long>();
        }
        return found;
    }

    /// <summary>
    /// Events as they come, until the server is stopped: of these types (without them all but write), of one target, behind an expiry
    /// event (0: with the first; null: from now on). A connection that breaks is opened again behind the last event, so that each
    /// expiry comes once; one that breaks again before the server says anything new, throws.
    /// </summary>
    public async IAsyncEnumerable<Event> EventsAsync(
        IEnumerable<string>? types = null,
        string? target = null,
        long? after = null,
        [EnumeratorCancellation] CancellationToken cancellation = default)
    {
        var names = types is null ? null : string.Join(',', types);
        var path = Calls.WithQuery("events", ("types", names), ("target", target), ("after", after));
        using var stream = new EventStream(_calls, path, () => _stopped);
        while (await stream.NextAsync(cancellation).ConfigureAwait(false) is { } found)
        {
            yield return found;
        }
    }

    /// <summary>
    /// Count what a change of TTL settings would expire, and change nothing. The change has the members of the admin API:
    /// <c>new JsonObject { ["default_ttl"] = 300 }</c>; a null is off, and -1 on without a default.
    /// </summary>
    public async Task<Preview> PreviewAsync(string target, JsonObject change)
    {
        var body = change.DeepClone().AsObject();
        body["target"] = target;
        return Preview.Of(await CallAsync(HttpMethod.Post, "ttl/preview", body).ConfigureAwait(false));
    }

    /// <summary>Count deadlines from now to a horizon.</summary>
    public async Task<Forecast> ForecastAsync(TimeSpan horizon, int buckets = 60, string? target = null)
    {
        var span = MayflyDb.Clock.Text(horizon);
        var path = Calls.WithQuery("ttl/forecast", ("horizon", span), ("buckets", buckets), ("target", target));
        return Forecast.Of(await CallAsync(HttpMethod.Get, path).ConfigureAwait(false));
    }

    /// <summary>Tell when and why one record expires, or why it does not. Pk: the value of Cosmos DB's partition key.</summary>
    public async Task<Explanation> ExplainAsync(string target, string id, JsonNode? pk = null)
    {
        var path = Calls.WithQuery("ttl/explain", ("target", target), ("id", id), ("pk", pk?.ToJsonString()));
        return Explanation.Of(await CallAsync(HttpMethod.Get, path).ConfigureAwait(false));
    }

    /// <summary>Call an operation of the admin API by its path below /_mayfly, and return its answer.</summary>
    public async Task<JsonNode> CallAsync(HttpMethod method, string path, JsonObject? body = null) =>
        JsonNode.Parse(await _calls.SendAsync(method, path, body?.ToJsonString()).ConfigureAwait(false))!;

    private static string SnapshotPath(string name) => $"snapshots/{Uri.EscapeDataString(name)}";

    private static JsonObject Scope(string? target) =>
        target is null ? new JsonObject() : new JsonObject { ["target"] = target };

    private static Process Launch(IEnumerable<string> arguments)
    {
        var named = Environment.GetEnvironmentVariable(Variable);
        var words = Regex.Matches(named ?? "", "\"[^\"]*\"|\\S+").Select(word => word.Value.Trim('"')).ToArray();
        var program = words.Length > 0 ? words : ["mayfly"];
        var start = new ProcessStartInfo(program[0])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        foreach (var argument in program.Skip(1).Concat(arguments))
        {
            start.ArgumentList.Add(argument);
        }
        start.Environment.Remove(Variable);
        try
        {
            return Process.Start(start)!;
        }
        catch (System.ComponentModel.Win32Exception error)
        {
            throw new InvalidOperationException(
                $"{program[0]} does not start: run \"pip install\" on a clone of Mayfly, or set {Variable} to the program", error);
        }
    }

    private string Address(string protocol, string name) =>
        _ready[protocol]?[name]?.GetValue<string>()
        ?? throw new InvalidOperationException($"this server does not serve {protocol}");
}
