package mayflydb;

import java.math.BigDecimal;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** JSON as the admin API speaks it: maps, lists, strings, booleans, null, and numbers as BigDecimal. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        return (Map<String, Object>) new Json(text).value();
    }

    static Instant instant(Object text) {
        return ((String) text).startsWith("after") ? Instant.MAX : Instant.parse((String) text);
    }

    static long number(Object value) {
        return value == null ? 0 : ((BigDecimal) value).longValueExact();
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> members(Object value) {
        return (Map<String, Object>) value;
    }

    static Stream<Map<String, Object>> rows(Object value) {
        return ((List<?>) value).stream().map(Json::members);
    }

    /** Write maps, lists, strings, numbers, booleans and null. */
    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(each -> quote((String) each.getKey()) + ":" + write(each.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Iterable<?> list) {
            return StreamSupport.stream(list.spliterator(), false).map(Json::write).collect(Collectors.joining(",", "[", "]"));
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof String string) {
            return quote(string);
        }
        throw new IllegalArgumentException("no JSON: " + value.getClass().getName());
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private Object value() {
        char first = peek();
        return switch (first) {
            case '{' -> members();
            case '[' -> elements();
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> members() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        while (peek() != '}') {
            String name = string();
            expect(':');
            found.put(name, value());
            if (peek() == ',') {
                at++;
            }
        }
        at++;
        return found;
    }

    private List<Object> elements() {
        List<Object> found = new ArrayList<>();
        at++;
        while (peek() != ']') {
            found.add(value());
            if (peek() == ',') {
                at++;
            }
        }
        at++;
        return found;
    }

    private String string() {
        expect('"');
        StringBuilder out = new StringBuilder();
        for (char c = next(); c != '"'; c = next()) {
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escaped = next();
            switch (escaped) {
                case 'b' -> out.append('\b');
                case 'f' -> out.append('\f');
                case 'n' -> out.append('\n');
                case 'r' -> out.append('\r');
                case 't' -> out.append('\t');
                case 'u' -> {
                    out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                }
                default -> out.append(escaped);
            }
        }
        return out.toString();
    }

    private BigDecimal number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        if (start == at) {
            throw new IllegalArgumentException("no JSON at " + at + ": " + text);
        }
        return new BigDecimal(text.substring(start, at));
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw new IllegalArgumentException("no JSON at " + at + ": " + text);
        }
        at += word.length();
        return value;
    }

    private char peek() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        if (at == text.length()) {
            throw new IllegalArgumentException("JSON that ends early: " + text);
        }
        return text.charAt(at);
    }

    private char next() {
        if (at == text.length()) {
            throw new IllegalArgumentException("JSON that ends early: " + text);
        }
        return text.charAt(at++);
    }

    private void expect(char wanted) {
        if (peek() != wanted) {
            throw new IllegalArgumentException("no " + wanted + " at " + at + ": " + text);
        }
        at++;
    }
}
