"""`DateTime::Format` and `Parse`, which return functions, and the standard formats: RFC 822, HTTP, ISO 8601, X.509.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/datetime
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.query.yql.expression import BoundLambda, Builder, Expression, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.broken_down_time import (
    DAY,
    SECOND,
    TM,
    TM64,
    LocalTime,
    break_down,
    from_instant,
    is_moment,
    moment_in_range,
    to_instant,
)
from mayflydb.query.yql.functions.datetime_module import MONTHS
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    coerce,
    evaluate_constant,
    mismatch_fault,
    text_of,
)
from mayflydb.query.yql.moments import days_of
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import BOOL, STRING, Type, Value, bare, format_type, is_optional, optional
from mayflydb.query.yql.zones import zone_of


class UnaryFunction:
    """A function of one value as the result of a call; `bind` checks the type of its argument."""

    arity = 1

    def __init__(self, make: Callable[[Type], tuple[Type, Callable[[Value], Value]]]) -> None:
        self._make = make

    def detach(self) -> UnaryFunction:
        return self

    def bind(self, types: Sequence[Type]) -> BoundLambda:
        kind, change = self._make(types[0])

        def call(arguments: tuple[Value, ...], row: Row, run: Run) -> Value:
            return None if arguments[0] is None else change(arguments[0])

        return BoundLambda(kind, call)


def _split_format(call: Invocation) -> list[str]:
    """Split the first operand into directives and the text between them."""
    if not call.operands or not isinstance(call.operands[0], Expression):
        raise argument_fault(call, "Expected a format")
    format_ = coerce(call.operands[0], STRING)
    if format_ is None:
        raise argument_fault(
            call, f"Mismatch type argument #1, type diff: {format_type(call.operands[0].type)} != String"
        )
    text = text_of(evaluate_constant(format_, call))
    # A lone `%` at the end is a part too, and refused below.
    parts = re.findall(r"%.?|[^%]+", text, re.DOTALL)
    known = set(_WRITERS if call.name.lower().endswith("format") else _READERS)
    for part in parts:
        if part[0] == "%" and part not in known:
            raise fault(
                f"invalid format specifier: {part}" if len(part) > 1 else "format string ends unexpectedly",
                call.position,
            )
    return parts


# --- writing ---------------------------------------------------------------------------------------------------------


def _offset(moment: LocalTime) -> str:
    minutes = (moment.days * DAY + moment.of_day - to_instant(moment)) // (60 * SECOND)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{abs(minutes) % 60:02d}"


def _seconds(moment: LocalTime, always: bool = False) -> str:
    second, micro = divmod(moment.of_day, SECOND)
    return f"{second % 60:02d}.{micro:06d}" if micro or always else f"{second % 60:02d}"


_WRITERS: Final[dict[str, Callable[[LocalTime], str]]] = {
    "%%": lambda moment: "%",
    "%Y": lambda moment: f"{moment.date[0]:04d}",
    "%m": lambda moment: f"{moment.date[1]:02d}",
    "%d": lambda moment: f"{moment.date[2]:02d}",
    "%H": lambda moment: f"{moment.of_day // (3600 * SECOND):02d}",
    "%M": lambda moment: f"{moment.of_day // (60 * SECOND) % 60:02d}",
    "%S": _seconds,
    "%z": _offset,
    "%Z": lambda moment: moment.zone,
    "%b": lambda moment: MONTHS[moment.date[1] - 1][:3],
    "%B": lambda moment: MONTHS[moment.date[1] - 1],
}


def _format(call: Invocation) -> Operand:
    """`Format(format [, alwaysWriteFractionalSeconds])`"""
    parts = _split_format(call)
    extra = [*call.operands[1:], *(operand for name, operand in call.named if name == "AlwaysWriteFractionalSeconds")]
    if len(extra) > 1 or len(call.named) + len(call.operands) != 1 + len(extra):
        raise argument_fault(call, f"Expected from 1 to 2 argument(s), but got {len(call.operands) + len(call.named)}")
    always = False
    if extra:
        given = coerce(extra[0], optional(BOOL)) if isinstance(extra[0], Expression) else None
        if given is None:
            raise argument_fault(call, "Expected Bool as argument #2")
        always = bool(evaluate_constant(given, call))
    steps = [_writer_of(part, always) for part in parts]

    def make(kind: Type) -> tuple[Type, Callable[[Value], Value]]:
        if not is_moment(kind):
            raise mismatch_fault(call, 0, kind, TM)
        source = bare(kind)
        write = lambda value: "".join(step(break_down(source, value)) for step in steps).encode()  # noqa: E731
        return optional(STRING) if is_optional(kind) else STRING, write

    return UnaryFunction(make)


def _writer_of(part: str, always: bool) -> Callable[[LocalTime], str]:
    if part == "%S" and always:
        return lambda moment: _seconds(moment, always=True)
    return _WRITERS[part] if part[0] == "%" else lambda moment: part


# --- reading ---------------------------------------------------------------------------------------------------------

_SHORT: Final = "|".join(name[:3] for name in MONTHS)
_READERS: Final = {
    "%%": "%",
    "%Y": "(?P<year>[0-9]{4})",
    "%m": "(?P<month>[0-9]{2})",
    "%d": "(?P<day>[0-9]{2})",
    "%H": "(?P<hour>[0-9]{2})",
    "%M": "(?P<minute>[0-9]{2})",
    "%S": r"(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?",
    "%Z": "(?P<zone>[A-Za-z0-9_/+-]+)",
    "%b": f"(?P<short>(?i:{_SHORT}))",
    "%B": f"(?P<long>(?i:{'|'.join(MONTHS)}))",
}


def _parse(wide: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        parts = _split_format(call)
        if len(call.operands) != 1 or call.named:
            raise argument_fault(call, f"Expected 1 argument(s), but got {len(call.operands) + len(call.named)}")
        if len({part for part in parts if part[0] == "%" and part != "%%"}) < sum(
            part[0] == "%" and part != "%%" for part in parts
        ):
            raise fault("a format specifier occurs twice", call.position)
        grammar = "".join(_READERS[part] if part[0] == "%" else re.escape(part) for part in parts)
        if wide:
            grammar = grammar.replace("[0-9]{4}", "[+-]?[0-9]{1,6}")
        reader = re.compile(grammar.encode(), re.DOTALL)
        kind = TM64 if wide else TM

        def make(source: Type) -> tuple[Type, Callable[[Value], Value]]:
            if bare(source) != STRING and str(bare(source)) != "Utf8":
                raise mismatch_fault(call, 0, source, STRING)
            return optional(kind), lambda value: _parse_moment(reader, value, kind)

        return UnaryFunction(make)

    return build


def _parse_moment(reader: re.Pattern[bytes], value: Value, kind: Type) -> LocalTime | None:
    found = reader.fullmatch(value.encode() if isinstance(value, str) else value)
    if found is None:
        return None
    given = {name: text.decode() for name, text in found.groupdict().items() if text is not None}
    month = int(given.get("month", "1"))
    for name, length in (("short", 3), ("long", 9)):
        if name in given:
            month = [each[:length].lower() for each in MONTHS].index(given[name].lower()) + 1
    days = days_of(int(given.get("year", "1970")), month, int(given.get("day", "1")))
    hour, minute, second = (int(given.get(name, "0")) for name in ("hour", "minute", "second"))
    zone = given.get("zone", "GMT")
    if days is None or hour > 23 or minute > 59 or second > 59 or zone_of(zone) is None:
        return None
    micro = int(given.get("fraction", "0").ljust(6, "0"))
    return moment_in_range(LocalTime(days, (hour * 3600 + minute * 60 + second) * SECOND + micro, zone), kind)


# --- formats with names ----------------------------------------------------------------------------------------------

_TIME: Final = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
_DATE: Final = rf"(?P<day>[0-9]{{1,2}})[ -](?P<short>{_SHORT})[a-z]*[ -](?P<year>[0-9]{{4}}|[0-9]{{2}})"
_ZONE: Final = r"(?P<offset>[A-Za-z]{1,5}|[+-][0-9]{2}:?[0-9]{2})"
_GRAMMARS: Final = {
    "ParseRfc822": rf"(?:[A-Za-z]+, *)?{_DATE} +{_TIME} +{_ZONE}",
    "ParseHttp": rf"(?:[A-Za-z]+, *)?{_DATE} +{_TIME} +{_ZONE}",
    "ParseIso8601": (
        r"(?P<year>[0-9]{4})-?(?P<month>[0-9]{2})-?(?P<day>[0-9]{2})(?:[Tt ](?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})"
        r"(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6})[0-9]*)?)?"
        r"(?P<offset>Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
    ),
    "ParseX509": (
        r"(?P<year>[0-9]{4}|[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})"
        r"(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?P<second>[0-9]{2})(?P<offset>Z)"
    ),
}
# Zones by name in hours from UTC: those of RFC 822, and Moscow's.
_HOURS: Final = {
    "z": 0,
    "ut": 0,
    "utc": 0,
    "gmt": 0,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
    "msk": 3,
    "msd": 4,
}


def _parse_format(grammar: str) -> Builder:
    reader = re.compile(grammar.encode())

    def read(value: bytes) -> LocalTime | None:
        found = reader.fullmatch(value.strip())
        if found is None:
            return None
        given = {name: text.decode() for name, text in found.groupdict().items() if text is not None}
        minutes = _offset_minutes(given.pop("offset", "Z"))
        if "short" in given:
            given["month"] = str([name[:3].lower() for name in MONTHS].index(given["short"].lower()) + 1)
        year = int(given["year"])
        if len(given["year"]) == 2:
            # As in RFC 5280 for UTCTime and in RFC 5322 for obsolete dates.
            year += 2000 if year < 50 else 1900
        days = days_of(year, int(given["month"]), int(given["day"]))
        hour, minute, second = (int(given.get(name, "0")) for name in ("hour", "minute", "second"))
        if minutes is None or days is None or hour > 23 or minute > 59 or second > 59:
            return None
        micro = int(given.get("fraction", "0").ljust(6, "0"))
        local = days * DAY + (hour * 3600 + minute * 60 + second) * SECOND + micro
        return moment_in_range(from_instant(local - minutes * 60 * SECOND), TM)

    def build(call: Invocation) -> Operand:
        from mayflydb.query.yql.functions.support import convert_operand, count_operands

        count_operands(call, 1)
        given = convert_operand(call, 0, STRING)
        return apply_with_nulls([given], optional(TM), lambda value: None if value is None else read(value))

    return build


def _offset_minutes(offset: str) -> int | None:
    """The offset of a zone from UTC in minutes; None for an unknown zone."""
    if offset[0] in "+-":
        digits = offset[1:].replace(":", "").ljust(4, "0")
        return (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if offset[0] == "-" else 1)
    hours = _HOURS.get(offset.lower())
    return None if hours is None else hours * 60


BUILDERS: Final[dict[str, Builder]] = {
    "Format": _format,
    "Parse": _parse(wide=False),
    "Parse64": _parse(wide=True),
    **{name: _parse_format(grammar) for name, grammar in _GRAMMARS.items()},
}
