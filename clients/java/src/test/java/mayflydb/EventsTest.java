package mayflydb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The stream over a connection that breaks, and a server that is silent. */
class EventsTest {
    @Test
    @Timeout(60)
    void eachExpiryComesOnceOverAConnectionThatBreaks() throws Exception {
        try (var server = Mayfly.start("--clock-start", "2026-01-01T00:00:00Z");
                var proxy = new Proxy(URI.create(server.admin()).getPort())) {
            server.seed(Path.of("src/test/resources/shop.json"));
            var calls = new Calls("http://127.0.0.1:" + proxy.port() + "/_mayfly");
            var seen = new ArrayList<String>();
            try (var events = new Events(calls, Follow.of("expired").after(0), () -> false)) {
                for (int hours : List.of(0, 1)) {
                    server.clock().advance(Duration.ofHours(hours).plusMinutes(1));
                    seen.add(events.next().expired().id());
                    proxy.cut();
                }
            }
            assertEquals(List.of("s2", "s1"), seen);
        }
    }

    @Test
    @Timeout(60)
    void aStreamEndsWithItsServer() throws Exception {
        var server = Mayfly.start();
        try (var events = server.events()) {
            server.close();
            for (int call = 0; call < 2; call++) {
                assertTrue(assertThrows(IllegalStateException.class, events::next).getMessage().contains("stopped"));
            }
        }
    }

    @Test
    @Timeout(60)
    void aCallThatGetsNoAnswerEndsInTime() throws Exception {
        try (var silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            var calls = new Calls("http://127.0.0.1:" + silent.getLocalPort() + "/_mayfly");
            calls.timeout = Duration.ofMillis(20);
            var late = assertThrows(UncheckedIOException.class, () -> calls.send("GET", "stats", ""));
            assertTrue(late.getMessage().contains("no answer to GET stats within PT0.02S"), late.getMessage());
        }
    }

    /** Passes bytes between a port of its own and another, until its connections are cut. */
    private static final class Proxy implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final List<Socket> open = new ArrayList<>();

        Proxy(int port) throws IOException {
            start(() -> {
                while (true) {
                    Socket near = listener.accept();
                    Socket far = new Socket(listener.getInetAddress(), port);
                    synchronized (open) {
                        open.addAll(List.of(near, far));
                    }
                    start(() -> pass(near, far));
                    start(() -> pass(far, near));
                }
            });
        }

        int port() {
            return listener.getLocalPort();
        }

        void cut() throws IOException {
            synchronized (open) {
                for (Socket socket : open) {
                    socket.close();
                }
                open.clear();
            }
        }

        @Override
        public void close() throws IOException {
            listener.close();
            cut();
        }

        private static void pass(Socket from, Socket to) throws IOException {
            try (from; to) {
                from.getInputStream().transferTo(to.getOutputStream());
            }
        }

        private static void start(Work work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (IOException cut) {
                    // The connection, or the listener, was closed.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        private interface Work {
            void run() throws IOException;
        }
    }
}
