using System.Globalization;
using System.Text.Json.Nodes;

namespace MayflyDb;

/// <summary>The server's clock. It stands still until it is moved, and a move returns when all that it makes due is purged.</summary>
public sealed class Clock
{
    private readonly Mayfly _server;

    internal Clock(Mayfly server) => _server = server;

    public async Task<DateTimeOffset> NowAsync() => Moment((await ShowAsync().ConfigureAwait(false))["now"]!);

    /// <summary>Move the clock through every deadline on the way.</summary>
    public Task<Move> AdvanceAsync(TimeSpan by) => MoveAsync("advance", new JsonObject { ["by"] = Text(by) });

    /// <summary>Move the clock to the next deadline, if there is one.</summary>
    public Task<Move> AdvanceToNextExpiryAsync() => MoveAsync("advance", new JsonObject { ["to"] = "next-expiry" });

    /// <summary>Move the clock to an instant. An earlier one is refused while anything newer is stored.</summary>
    public Task<Move> SetAsync(DateTimeOffset to) =>
        MoveAsync("set", new JsonObject { ["to"] = Text(to), ["force"] = true });

    public Task FreezeAsync() => _server.CallAsync(HttpMethod.Post, "clock/freeze", new JsonObject());

    /// <summary>Let the clock tick.</summary>
    public Task ResumeAsync() => _server.CallAsync(HttpMethod.Post, "clock/resume", new JsonObject());

    /// <summary>The next deadline; null: no record expires.</summary>
    public async Task<DateTimeOffset?> NextExpiryAsync() =>
        (await ShowAsync().ConfigureAwait(false))["next_expiry"] is { } due ? Moment(due) : null;

    internal static string Text(DateTimeOffset moment) =>
        moment.UtcDateTime.ToString("yyyy-MM-ddTHH:mm:ss.ffffffZ", CultureInfo.InvariantCulture);

    internal static string Text(TimeSpan span) => FormattableString.Invariant($"{span.Ticks / 10}us");

    /// <summary>An instant after the year 9999 is the last that a DateTimeOffset has.</summary>
    internal static DateTimeOffset Moment(JsonNode text)
    {
        var value = text.GetValue<string>();
        return value.StartsWith("after", StringComparison.Ordinal)
            ? DateTimeOffset.MaxValue
            : DateTimeOffset.Parse(value, CultureInfo.InvariantCulture);
    }

    private Task<JsonNode> ShowAsync() => _server.CallAsync(HttpMethod.Get, "clock");

    private async Task<Move> MoveAsync(string how, JsonObject body)
    {
        var answer = await _server.CallAsync(HttpMethod.Post, $"clock/{how}", body).ConfigureAwait(false);
        return new Move(
            Moment(answer["now"]!), answer["expired"]?.GetValue<long>() ?? 0, answer["purged"]?.GetValue<long>() ?? 0);
    }
}

/// <summary>What a move of the clock did: deadlines that it passed, and records that it purged.</summary>
public sealed record Move(DateTimeOffset Now, long Expired, long Purged);
