package mayflydb;

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * A stream of events, until it is closed. A connection that breaks is opened again behind the last event, so that each expiry comes
 * once; one that breaks again before the server says anything new, is an error.
 */
public final class Events implements AutoCloseable {
    /** Events that wait; a reader who is slower delays the stream alone. */
    private static final int WAITING = 64;

    private final Calls calls;
    private final String path;
    private final BooleanSupplier stopped;
    private final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(WAITING);
    private final Thread reader = new Thread(this::read, "mayfly-events");
    private volatile InputStream body;
    private BufferedReader lines;
    private volatile boolean closed;
    private String last;
    private boolean heard = true;

    /** @param stopped whether the server was stopped, which ends the stream */
    Events(Calls calls, Follow follow, BooleanSupplier stopped) {
        this.calls = calls;
        this.stopped = stopped;
        path = follow.path();
        try {
            open();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        reader.setDaemon(true);
        reader.start();
    }

    /** Wait a minute for the next event. IllegalStateException: none came, or the server was stopped. */
    public Event next() {
        return next(Program.PATIENCE).orElseThrow(() -> new IllegalStateException("no event came within " + Program.PATIENCE));
    }

    /** Wait for the next event; empty: none came. IllegalStateException: the server was stopped. */
    public Optional<Event> next(Duration patience) {
        Object found;
        try {
            found = queue.poll(patience.toNanos(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException interruption) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(interruption);
        }
        if (found instanceof RuntimeException ended) {
            // It stays for the next call.
            queue.offer(ended);
            throw ended;
        }
        return Optional.ofNullable((Event) found);
    }

    @Override
    public void close() {
        closed = true;
        reader.interrupt();
        try {
            // Not the reader: it is locked while it waits for a line.
            body.close();
        } catch (IOException alreadyBroken) {
            // Nothing is left to close.
        }
    }

    private void read() {
        try {
            while (!closed) {
                follow();
            }
        } catch (RuntimeException error) {
            put(error);
        } catch (IOException error) {
            put(new UncheckedIOException("the stream of events broke", error));
        }
    }

    /** Read events until the connection breaks, and open it again. */
    private void follow() throws IOException {
        try {
            while (!closed) {
                Event event = frame();
                if (event != null) {
                    put(event);
                }
            }
        } catch (IOException broken) {
            if (stopped.getAsBoolean()) {
                throw new IllegalStateException("the server was stopped");
            }
            if (closed) {
                return;
            }
            if (!heard) {
                throw broken;
            }
            body.close();
            open();
            heard = false;
            if (closed) {
                // close() may have met the one before.
                body.close();
            }
        }
    }

    /** The number of its place comes first, so that a stream which breaks before its first event resumes there. */
    private void open() throws IOException {
        body = calls.open(path, last == null ? Map.of() : Map.of("last-event-id", last));
        lines = new BufferedReader(new InputStreamReader(body, StandardCharsets.UTF_8));
        frame();
    }

    /** Read lines up to an empty one; null: they are no event. Those behind the last empty line did not arrive whole. */
    private Event frame() throws IOException {
        String type = null;
        String data = null;
        String id = null;
        for (String line = lines.readLine(); ; line = lines.readLine()) {
            if (line == null) {
                throw new EOFException("the server ended the stream of events");
            }
            if (line.startsWith("event: ")) {
                type = line.substring("event: ".length());
            } else if (line.startsWith("data: ")) {
                data = line.substring("data: ".length());
            } else if (line.startsWith("id: ")) {
                id = line.substring("id: ".length());
            } else if (line.isEmpty()) {
                break;
            }
        }
        heard = true;
        last = id == null ? last : id;
        OptionalLong seq = id == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(id));
        return type == null ? null : new Event(type, seq, Json.object(data));
    }

    private void put(Object found) {
        try {
            queue.put(found);
        } catch (InterruptedException closing) {
            closed = true;
        }
    }
}
