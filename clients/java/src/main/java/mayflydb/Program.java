package mayflydb;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/** `mayfly serve` as a process of its own. It ends with this JVM, because its standard input does. */
final class Program {
    static final Duration PATIENCE = Duration.ofMinutes(1);

    private static final String VARIABLE = "MAYFLY_COMMAND";
    private static final Pattern WORD = Pattern.compile("\"[^\"]*\"|\\S+");
    private static final List<String> SERVE = List.of(
            "serve", "--memory", "--clock", "virtual", "-p", "0", "--mongo-port", "0", "--ydb-port", "0", "--stop-with-stdin");
    private static final int TAIL = 4_000;

    private final Process process;
    private final StringBuffer log = new StringBuffer();

    /** The document that the program prints when each of its listeners answers. */
    final String ready;

    Program(List<String> arguments) throws IOException {
        process = launch(arguments);
        Thread reader = new Thread(this::readLog, "mayfly-log");
        reader.setDaemon(true);
        reader.start();
        BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
        CompletableFuture<String> line = new CompletableFuture<>();
        Thread waiter = new Thread(() -> line.complete(firstOf(lines)), "mayfly-ready");
        waiter.setDaemon(true);
        waiter.start();
        String found = null;
        try {
            found = line.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException interruption) {
            Thread.currentThread().interrupt();
        } catch (TimeoutException | java.util.concurrent.ExecutionException error) {
            log.append(error);
        }
        if (found == null) {
            process.destroyForcibly();
            try {
                reader.join(PATIENCE.toMillis());
            } catch (InterruptedException interruption) {
                Thread.currentThread().interrupt();
            }
            throw new IOException("Mayfly did not start\n" + log);
        }
        ready = found;
    }

    void stop() throws IOException {
        process.getOutputStream().close();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interruption) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    private static Process launch(List<String> arguments) throws IOException {
        String named = System.getenv(VARIABLE);
        List<String> command = new ArrayList<>(named == null || named.isBlank() ? List.of("mayfly") : words(named));
        String program = command.get(0);
        command.addAll(SERVE);
        command.addAll(arguments);
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().remove(VARIABLE);
        try {
            return builder.start();
        } catch (IOException error) {
            throw new IOException(
                    program + " does not start: run \"pip install\" on a clone of Mayfly, or set " + VARIABLE + " to the program",
                    error);
        }
    }

    private static List<String> words(String line) {
        return WORD.matcher(line).results().map(MatchResult::group).map(word -> word.replace("\"", "")).toList();
    }

    private static String firstOf(BufferedReader lines) {
        try {
            return lines.readLine();
        } catch (IOException error) {
            return null;
        }
    }

    private void readLog() {
        char[] part = new char[TAIL];
        try (var said = new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8)) {
            for (int n = said.read(part); n >= 0; n = said.read(part)) {
                log.append(part, 0, n);
                log.delete(0, Math.max(0, log.length() - TAIL));
            }
        } catch (IOException ended) {
            log.append(ended);
        }
    }
}
