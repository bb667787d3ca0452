using System.Text;
using System.Text.Json;
using System.Text.Json.Nodes;

namespace MayflyDb;

/// <summary>Requests to the admin API, each with a time limit, and its refusals.</summary>
internal sealed class Calls : IDisposable
{
    private readonly string _base;
    private readonly TimeSpan _timeout;

    // The time limits are those of each request: a stream of events has none as a whole.
    private readonly HttpClient _http = new(new SocketsHttpHandler { UseProxy = false }) { Timeout = Timeout.InfiniteTimeSpan };

    public Calls(string address, TimeSpan timeout)
    {
        _base = address;
        _timeout = timeout;
    }

    public void Dispose() => _http.Dispose();

    /// <summary>Send a request, with a body of JSON or none, and return the text of the answer.</summary>
    public async Task<string> SendAsync(HttpMethod method, string path, string? body = null)
    {
        using var request = new HttpRequestMessage(method, $"{_base}/{path}");
        if (body is not null)
        {
            request.Content = new StringContent(body, Encoding.UTF8, "application/json");
        }
        using var late = new CancellationTokenSource(_timeout);
        try
        {
            using var answer = await _http.SendAsync(request, late.Token).ConfigureAwait(false);
            var said = await answer.Content.ReadAsStringAsync(late.Token).ConfigureAwait(false);
            return answer.IsSuccessStatusCode ? said : throw MayflyException.Of((int)answer.StatusCode, said);
        }
        catch (OperationCanceledException) when (late.IsCancellationRequested)
        {
            throw new TimeoutException($"no answer to {method} {path} within {_timeout}");
        }
    }

    /// <summary>Open a stream of text. Its owner disposes of the answer.</summary>
    public async Task<HttpResponseMessage> OpenAsync(string path, string? last, CancellationToken cancellation)
    {
        using var request = new HttpRequestMessage(HttpMethod.Get, $"{_base}/{path}");
        if (last is not null)
        {
            request.Headers.Add("Last-Event-ID", last);
        }
        using var late = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        late.CancelAfter(_timeout);
        try
        {
            var answer = await _http.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, late.Token).ConfigureAwait(false);
            if (answer.IsSuccessStatusCode)
            {
                return answer;
            }
            using (answer)
            {
                var said = await answer.Content.ReadAsStringAsync(late.Token).ConfigureAwait(false);
                throw MayflyException.Of((int)answer.StatusCode, said);
            }
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new TimeoutException($"no answer to GET {path} within {_timeout}");
        }
    }

    /// <summary>A path with a query of the members that are not null.</summary>
    public static string WithQuery(string path, params (string Name, object? Value)[] members)
    {
        var given = members
            .Where(member => member.Value is not null)
            .Select(member => $"{member.Name}={Uri.EscapeDataString(FormattableString.Invariant($"{member.Value}"))}")
            .ToArray();
        return given.Length == 0 ? path : $"{path}?{string.Join('&', given)}";
    }
}

/// <summary>A refusal of the admin API: its problem document. The message has all of it.</summary>
public sealed class MayflyException : Exception
{
    private MayflyException(int status, string title, string detail, string hint)
        : base($"{status} {title}".TrimEnd() + (detail.Length == 0 ? "" : $": {detail}") + (hint.Length == 0 ? "" : $"; {hint}"))
    {
        Status = status;
        Title = title;
        Detail = detail;
        Hint = hint;
    }

    /// <summary>The status of HTTP.</summary>
    public int Status { get; }

    public string Title { get; }

    public string Detail { get; }

    /// <summary>The next thing to try; often empty.</summary>
    public string Hint { get; }

    internal static MayflyException Of(int status, string said)
    {
        try
        {
            if (JsonNode.Parse(said) is JsonObject problem)
            {
                string Member(string name) => problem[name]?.ToString() ?? "";
                return new MayflyException(status, Member("title"), Member("detail"), Member("hint"));
            }
        }
        catch (JsonException)
        {
            // No problem document: the text is shown as it is.
        }
        return new MayflyException(status, "", said, "");
    }
}
