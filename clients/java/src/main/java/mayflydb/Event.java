package mayflydb;

import java.util.Map;
import java.util.OptionalLong;

/**
 * One event of a stream.
 *
 * @param type expired, purged, write, clock, reset, or lost: events behind the wanted number are no longer kept
 * @param seq the number of an expiry event, behind which a stream can begin
 * @param data the members that the admin API's page describes; numbers are BigDecimal
 */
public record Event(String type, OptionalLong seq, Map<String, Object> data) {
    /** The record that age removed; for events of the type expired. */
    public Expired expired() {
        return Expired.of(data);
    }
}
