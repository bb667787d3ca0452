using System.Diagnostics;
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

    private static readonly string[][] Programs = [["mayfly"]];
    private static readonly string[] Serve =
    [
        "serve", "--memory", "--clock", "virtual", "-p", "0", "--mongo-port", "0", "--ydb-port", "0", "--stop-with-stdin",
    ];

    private readonly Process _process;
    private readonly JsonNode _ready;
    private readonly HttpClient _http = new();

    private Mayfly(Process process, string ready)
    {
        _process = process;
        _ready = JsonNode.Parse(ready)!;
        Clock = new Clock(this);
    }

    /// <summary>
    /// Start a server, with further flags of <c>mayfly serve</c>, and return when each of its listeners answers. The program is
    /// that of the variable MAYFLY_COMMAND, or <c>mayfly</c> on the PATH. It ends with this process,
    /// because its standard input does.
    /// </summary>
    public static async Task<Mayfly> StartAsync(
        DateTimeOffset? start = null, IEnumerable<string>? arguments = null, CancellationToken cancellation = default)
    {
        using var patience = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        patience.CancelAfter(TimeSpan.FromMinutes(1));
        string[] clock = start is null ? [] : ["--clock-start", Format(start.Value)];
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
            return new Mayfly(process, ready);
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
        _http.Dispose();
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
        var pem = await _http.GetStringAsync($"{Admin}/cert").ConfigureAwait(false);
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

    /// <summary>Delete everything and put the clock back to its start; with a target, delete that alone.</summary>
    public Task ResetAsync(string? target = null) => CallAsync(HttpMethod.Post, "reset", Scope(target));

    /// <summary>Purge what is due now, whatever the schedule, and return the number of records.</summary>
    public async Task<int> PurgeAsync(string? target = null)
    {
        var answer = await CallAsync(HttpMethod.Post, "purge", Scope(target)).ConfigureAwait(false);
        return answer["purged"]!.GetValue<int>();
    }

    /// <summary>The records that age removed since the last reset, in the order of their purges.</summary>
    public async Task<IReadOnlyList<Expired>> ExpiredAsync(string? target = null)
    {
        var found = new List<Expired>();
        var only = target is null ? "" : $"&target={Uri.EscapeDataString(target)}";
        for (long after = -1, next = 0; next != after;)
        {
            after = next;
            var page = await CallAsync(HttpMethod.Get, $"events/expired?after={after}{only}").ConfigureAwait(false);
            found.AddRange(page["events"]!.AsArray().Select(row => Expired.Of(row!)));
            next = page["last"]!.GetValue<long>();
        }
        return found;
    }

    /// <summary>Call an operation of the admin API by its path below /_mayfly, and return its answer.</summary>
    public async Task<JsonNode> CallAsync(HttpMethod method, string path, JsonObject? body = null)
    {
        using var request = new HttpRequestMessage(method, $"{Admin}/{path}");
        if (body is not null)
        {
            request.Content = new StringContent(body.ToJsonString(), Encoding.UTF8, "application/json");
        }
        using var answer = await _http.SendAsync(request).ConfigureAwait(false);
        var said = await answer.Content.ReadAsStringAsync().ConfigureAwait(false);
        return answer.IsSuccessStatusCode
            ? JsonNode.Parse(said)!
            : throw new MayflyException((int)answer.StatusCode, said);
    }

    internal static string Format(DateTimeOffset moment) => moment.UtcDateTime.ToString("yyyy-MM-ddTHH:mm:ss.ffffffZ");

    private static JsonObject Scope(string? target) => target is null ? [] : new JsonObject { ["target"] = target };

    private static Process Launch(IEnumerable<string> arguments)
    {
        var named = Environment.GetEnvironmentVariable(Variable);
        var words = Regex.Matches(named ?? "", "\"[^\"]*\"|\\S+").Select(word => word.Value.Trim('"')).ToArray();
        foreach (var program in words.Length > 0 ? [words] : Programs)
        {
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
            catch (System.ComponentModel.Win32Exception)
            {
                // Not on the PATH: the next one.
            }
        }
        throw new InvalidOperationException(
            $"mayfly is not on the PATH: run \"pip install\" on a clone of Mayfly, or set {Variable} to the program");
    }

    private string Address(string protocol, string name) =>
        _ready[protocol]?[name]?.GetValue<string>()
        ?? throw new InvalidOperationException($"this server does not serve {protocol}");
}

/// <summary>The server's clock. A move returns when all that it makes due is purged.</summary>
public sealed class Clock
{
    private readonly Mayfly _server;

    internal Clock(Mayfly server) => _server = server;

    public async Task<DateTimeOffset> NowAsync() => Moment((await ShowAsync().ConfigureAwait(false))["now"]!);

    /// <summary>Move the clock through every deadline on the way.</summary>
    public Task<Move> AdvanceAsync(TimeSpan by) => MoveAsync("advance", new JsonObject { ["by"] = $"{by.Ticks / 10}us" });

    /// <summary>Move the clock to the next deadline, if there is one.</summary>
    public Task<Move> AdvanceToNextExpiryAsync() => MoveAsync("advance", new JsonObject { ["to"] = "next-expiry" });

    /// <summary>Move the clock to an instant. An earlier one is refused while anything newer is stored.</summary>
    public Task<Move> SetAsync(DateTimeOffset to) =>
        MoveAsync("set", new JsonObject { ["to"] = Mayfly.Format(to), ["force"] = true });

    public Task FreezeAsync() => _server.CallAsync(HttpMethod.Post, "clock/freeze", []);

    /// <summary>Let the clock tick.</summary>
    public Task ResumeAsync() => _server.CallAsync(HttpMethod.Post, "clock/resume", []);

    /// <summary>The next deadline; null: no record expires.</summary>
    public async Task<DateTimeOffset?> NextExpiryAsync() =>
        (await ShowAsync().ConfigureAwait(false))["next_expiry"] is { } due ? Moment(due) : null;

    /// <summary>An instant after the year 9999 is the last that a DateTimeOffset has.</summary>
    internal static DateTimeOffset Moment(JsonNode text)
    {
        var value = text.GetValue<string>();
        return value.StartsWith("after", StringComparison.Ordinal)
            ? DateTimeOffset.MaxValue
            : DateTimeOffset.Parse(value, System.Globalization.CultureInfo.InvariantCulture);
    }

    private Task<JsonNode> ShowAsync() => _server.CallAsync(HttpMethod.Get, "clock");

    private async Task<Move> MoveAsync(string how, JsonObject body)
    {
        var answer = await _server.CallAsync(HttpMethod.Post, $"clock/{how}", body).ConfigureAwait(false);
        return new Move(
            Moment(answer["now"]!), answer["expired"]?.GetValue<int>() ?? 0, answer["purged"]?.GetValue<int>() ?? 0);
    }
}

/// <summary>What a move of the clock did: deadlines that it passed, and records that it purged.</summary>
public sealed record Move(DateTimeOffset Now, int Expired, int Purged);

/// <summary>One record that age removed. Reason: default, item, index or column.</summary>
public sealed record Expired(
    string Target, string Id, JsonNode? Pk, DateTimeOffset Due, DateTimeOffset PurgedAt, string Reason)
{
    internal static Expired Of(JsonNode row) => new(
        row["target"]!.GetValue<string>(),
        row["id"]!.GetValue<string>(),
        row["pk"]?.DeepClone(),
        Clock.Moment(row["due"]!),
        Clock.Moment(row["purged_at"]!),
        row["reason"]!.GetValue<string>());
}

/// <summary>A refusal of the admin API, with its problem document.</summary>
public sealed class MayflyException(int status, string problem) : Exception($"{status}: {problem}")
{
    public int Status { get; } = status;
}
