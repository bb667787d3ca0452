using System.Text.Json.Nodes;

namespace MayflyDb;

/// <summary>
/// One event. Type: expired, purged, write, clock, reset, or lost (events behind the wanted number are no longer kept). Seq: the number
/// of an expiry event, behind which a stream can begin. Data: the members that the admin API's page describes.
/// </summary>
public sealed record Event(string Type, long? Seq, JsonNode? Data);

/// <summary>The stream of events, opened again behind the last event where it breaks.</summary>
internal sealed class EventStream : IDisposable
{
    // The server says something every 15 seconds.
    private static readonly TimeSpan Silence = TimeSpan.FromMinutes(1);

    private readonly Calls _calls;
    private readonly string _path;
    private readonly Func<bool> _stopped;
    private HttpResponseMessage? _answer;
    private StreamReader? _lines;
    private string? _last;
    private bool _heard = true;

    public EventStream(Calls calls, string path, Func<bool> stopped)
    {
        _calls = calls;
        _path = path;
        _stopped = stopped;
    }

    public void Dispose()
    {
        _lines?.Dispose();
        _answer?.Dispose();
    }

    /// <summary>Wait for the next event; null: the server was stopped.</summary>
    public async Task<Event?> NextAsync(CancellationToken cancellation)
    {
        if (_lines is null)
        {
            await OpenAsync(cancellation).ConfigureAwait(false);
        }
        while (true)
        {
            try
            {
                if (await ReadFrameAsync(cancellation).ConfigureAwait(false) is { } found)
                {
                    return found;
                }
                continue;
            }
            catch (Exception broken) when (broken is IOException or HttpRequestException or TimeoutException)
            {
                if (_stopped())
                {
                    return null;
                }
                if (!_heard)
                {
                    throw;
                }
            }
            await OpenAsync(cancellation).ConfigureAwait(false);
            _heard = false;
        }
    }

    /// <summary>The number of its place comes first, so that a stream which breaks before its first event resumes there.</summary>
    private async Task OpenAsync(CancellationToken cancellation)
    {
        Dispose();
        _answer = await _calls.OpenAsync(_path, _last, cancellation).ConfigureAwait(false);
        _lines = new StreamReader(await _answer.Content.ReadAsStreamAsync(cancellation).ConfigureAwait(false));
        await ReadFrameAsync(cancellation).ConfigureAwait(false);
    }

    /// <summary>Read lines up to an empty one; null: they are no event. Those behind the last empty line did not arrive whole.</summary>
    private async Task<Event?> ReadFrameAsync(CancellationToken cancellation)
    {
        using var late = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        late.CancelAfter(Silence);
        string? type = null, id = null, data = null;
        try
        {
            while (true)
            {
                var line = await _lines!.ReadLineAsync(late.Token).ConfigureAwait(false)
                    ?? throw new IOException("the server ended the stream of events");
                if (line.Length == 0)
                {
                    break;
                }
                var colon = line.IndexOf(':', StringComparison.Ordinal);
                var value = line[(colon + 1)..].TrimStart(' ');
                switch (colon < 0 ? line : line[..colon])
                {
                    case "event":
                        type = value;
                        break;
                    case "id":
                        id = value;
                        break;
                    case "data":
                        data = value;
                        break;
                }
            }
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new TimeoutException($"no word from the stream of events for {Silence}");
        }
        _heard = true;
        _last = id ?? _last;
        long? seq = id is null ? null : long.Parse(id, System.Globalization.CultureInfo.InvariantCulture);
        return type is null ? null : new Event(type, seq, data is null ? null : JsonNode.Parse(data));
    }
}
