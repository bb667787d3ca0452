"""Durations and times as people write them: `90`, `1h30m`, `PT1H`; `2030-01-01T00:00:00Z`, Unix seconds."""

from __future__ import annotations

import re

from mayflydb.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Instant, Span, from_rfc3339, to_datetime

LONGEST: Span = (1 << 63) - 1
"""Spans fit signed 64-bit microseconds: about 292,000 years."""

_UNITS: dict[str, Span] = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND, "us": 1}

# 19 digits hold every span that fits into 64 bits, and bound the work for text of any length.
_NUMBER = r"(\d{1,19}(?:\.\d{1,18})?)"
_PLAIN = re.compile(_NUMBER, re.ASCII)
_COMPACT = re.compile("".join(rf"(?:{_NUMBER}{unit})?" for unit in _UNITS), re.ASCII)
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)
_CALENDAR = re.compile(r"P\d[\d.]*[YM].*|.*\d\s*(?:M|mo|mon|months?|y|Y|years?)\b.*", re.ASCII)
_UNIX = re.compile(r"(-?)" + _NUMBER, re.ASCII)

_FORMS = "write 90, 90s, 1h30m, 7d or PT1H"


def parse_span(text: str) -> Span:
    """Parse a span; ValueError, with a sentence for people, for other text.

    A bare number is seconds. Units are w, d, h, m, s, ms and us, longest first, each once; ISO 8601 durations may use W, D,
    H, M (after the T) and S. Months and years are refused, because their length depends on their start.
    """
    stripped = text.strip()
    if _PLAIN.fullmatch(stripped):
        return _check_length(_multiply(stripped, SECOND), text)
    compact = _COMPACT.fullmatch(stripped)
    if compact and stripped:
        return _check_length(_total(compact, tuple(_UNITS.values())), text)
    iso = _ISO.fullmatch(stripped)
    if iso and any(iso.groups()):
        return _check_length(_total(iso, (7 * DAY, DAY, HOUR, MINUTE, SECOND)), text)
    if _CALENDAR.fullmatch(stripped):
        raise ValueError(f"{text!r} counts in months or years, whose length varies; {_FORMS}")
    raise ValueError(f"{text!r} is not a duration; {_FORMS}")


def format_span(span: Span) -> str:
    """Format a span in the shortest compact form: `1h30m`, `0s`. `parse_span` gives the same span back."""
    if span < 0:
        return "-" + format_span(-span)
    parts: list[str] = []
    for unit, length in _UNITS.items():
        # People seldom count in weeks, so seven days stay seven days.
        if unit != "w" and span >= length:
            count, span = divmod(span, length)
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_instant(text: str) -> Instant:
    """Parse RFC 3339 with an offset, or Unix seconds; ValueError, with a sentence for people, for other text."""
    stripped = text.strip()
    try:
        unix = _UNIX.fullmatch(stripped)
        instant = _parse_unix(unix) if unix else from_rfc3339(stripped)
        to_datetime(instant)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time; write 2030-01-01T00:00:00Z (an offset is needed) or Unix seconds"
        ) from None
    return instant


def _parse_unix(match: re.Match[str]) -> Instant:
    size = _multiply(match[2], SECOND)
    return -size if match[1] else size


def _total(match: re.Match[str], lengths: tuple[Span, ...]) -> Span:
    return sum(_multiply(number, length) for number, length in zip(match.groups(), lengths, strict=True) if number)


def _multiply(number: str, unit: Span) -> Span:
    """Return `number` times `unit`, exact; ValueError for a fraction of a microsecond."""
    whole, _, fraction = number.partition(".")
    # In integers: a double would lose microseconds from 285 years on.
    numerator = int(whole + fraction) * unit
    span, rest = divmod(numerator, int("1" + "0" * len(fraction)))
    if rest:
        raise ValueError(f"{number!r} is finer than a microsecond")
    return span


def _check_length(span: Span, text: str) -> Span:
    if span > LONGEST:
        raise ValueError(f"{text!r} is longer than 292,000 years")
    return span


def format_iso(span: Span) -> str:
    """Format a span as ISO 8601 does: `P7D`, `PT1H30M`, `-PT0.5S`, `PT0S`.

    Days, then hours, minutes and seconds, without zero parts and without trailing zeros of a fraction.
    """
    days, rest = divmod(abs(span), DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds, fraction = divmod(rest, SECOND)
    time = "".join(f"{part}{unit}" for part, unit in ((hours, "H"), (minutes, "M")) if part)
    if fraction:
        time += f"{seconds}.{fraction:06}".rstrip("0") + "S"
    elif seconds or not (days or time):
        time += f"{seconds}S"
    return f"{'-' if span < 0 else ''}P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"
