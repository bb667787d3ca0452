using System.Text.Json.Nodes;

namespace MayflyDb;

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

/// <summary>What a resource document made. Same: what was there with the same content.</summary>
public sealed record Seeded(long Created, long Changed, long Same)
{
    internal static Seeded Of(JsonNode answer) => new(
        answer["created"]!.GetValue<long>(), answer["changed"]!.GetValue<long>(), answer["same"]!.GetValue<long>());
}

/// <summary>Everything that was stored at an instant, with the clock.</summary>
public sealed record Snapshot(string Name, DateTimeOffset SavedAt, long Bytes)
{
    internal static Snapshot Of(JsonNode row) =>
        new(row["name"]!.GetValue<string>(), Clock.Moment(row["saved_at"]!), row["bytes"]!.GetValue<long>());
}

/// <summary>Counts of what is stored; records are visible ones.</summary>
public sealed record Stats(long Databases, long Containers, long Records)
{
    internal static Stats Of(JsonNode answer) => new(
        answer["databases"]!.GetValue<long>(), answer["containers"]!.GetValue<long>(), answer["records"]!.GetValue<long>());
}

/// <summary>
/// What a change of TTL settings would expire. ExpireWithin: by the spans 1h, 1d and 7d. ReappearNow: records that are hidden now,
/// and visible under the new rules. Exact is false where the counts are estimates. Sample: ids of records that would expire at once.
/// </summary>
public sealed record Preview(
    long Records,
    long ExpireNow,
    IReadOnlyDictionary<string, long> ExpireWithin,
    long OwnTtl,
    long Never,
    long ReappearNow,
    bool Exact,
    IReadOnlyList<string> Sample)
{
    internal static Preview Of(JsonNode answer) => new(
        answer["records"]!.GetValue<long>(),
        answer["expire_now"]!.GetValue<long>(),
        answer["expire_within"]!.AsObject().ToDictionary(each => each.Key, each => each.Value!.GetValue<long>()),
        answer["own_ttl"]!.GetValue<long>(),
        answer["never"]!.GetValue<long>(),
        answer["reappear_now"]!.GetValue<long>(),
        answer["exact"]!.GetValue<bool>(),
        answer["sample"]!.AsArray().Select(id => id!.GetValue<string>()).ToList());
}

/// <summary>The deadlines after From, up to To.</summary>
public sealed record Bucket(DateTimeOffset From, DateTimeOffset To, long Count)
{
    internal static Bucket Of(JsonNode row) =>
        new(Clock.Moment(row["from"]!), Clock.Moment(row["to"]!), row["count"]!.GetValue<long>());
}

/// <summary>Deadlines by bucket. Exact is false where the counts are estimates.</summary>
public sealed record Forecast(
    IReadOnlyList<Bucket> Buckets, long DueNow, long InHorizon, long Later, long Never, bool Exact)
{
    internal static Forecast Of(JsonNode answer) => new(
        answer["buckets"]!.AsArray().Select(row => Bucket.Of(row!)).ToList(),
        answer["due_now"]!.GetValue<long>(),
        answer["in_horizon"]!.GetValue<long>(),
        answer["later"]!.GetValue<long>(),
        answer["never"]!.GetValue<long>(),
        answer["exact"]!.GetValue<bool>());
}

/// <summary>When and why one record expires, or why it does not. State: alive, hidden, or due (expired, and visible until purged).</summary>
public sealed record Explanation(string State, DateTimeOffset? Deadline, string Reason, string Text)
{
    internal static Explanation Of(JsonNode answer) => new(
        answer["state"]!.GetValue<string>(),
        answer["deadline"] is { } deadline ? Clock.Moment(deadline) : null,
        answer["reason"]!.GetValue<string>(),
        answer["text"]!.GetValue<string>());
}
