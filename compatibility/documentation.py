"""Run the examples of YQL's documentation that state their results, and count those that come out as stated.

    python compatibility/documentation.py FOLDER...

The folders hold Markdown. An example is a value of a SELECT in a block of YQL, with a comment behind it: `SELECT 1 + 1, -- 2`.
Comments that are no values count as differences, which are listed. Examples over tables that no page creates are left out.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mayflydb.query.yql import texts
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans import bind, execute
from mayflydb.query.yql.schemas import Access, Effect, Row, Run
from mayflydb.query.yql.syntax import Item, Select
from mayflydb.query.yql.types import (
    VOID,
    DictType,
    Just,
    ListType,
    OptionalType,
    Primitive,
    StructType,
    TaggedType,
    TupleType,
    Type,
    VariantType,
)

NOW = 1_893_456_000_000_000
BLOCK = re.compile(r"^[ ]*```(?:yql|sql)\s*\n(.*?)^[ ]*```", re.DOTALL | re.MULTILINE)
# Comments are found outside of texts and names in backticks.
TOKEN = re.compile(
    r"""@@.*?@@|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|/\*.*?\*/|--(?P<comment>[^\n]*)""", re.DOTALL
)
WHOLE = re.compile(r"(?<=\d)\.0+\b")


class Example(NamedTuple):
    page: str
    value: str
    stated: str
    found: str

    @property
    def agrees(self) -> bool:
        return plain(self.stated) == plain(self.found)


class Fixed:
    """Chance that is none: what depends on it states no result."""

    def random(self) -> float:
        return 0.5

    def getrandbits(self, k: int, /) -> int:
        return k


class NoTables:
    async def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        for rows in ():
            yield rows

    async def write(self, effect: Effect) -> Sequence[Row]:
        return []


def plain(text: str) -> str:
    """What a text says, without quotes, blanks, suffixes of literals and the name of the Optional."""
    text = re.sub(r"Nothing\(.*\)", "null", text.strip().rstrip("."), flags=re.DOTALL)
    text = re.sub(r"\bJust\((.*)\)", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"(?<=\d)(?:ul|[lu])\b", "", WHOLE.sub("", text))
    text = re.sub(r"Optional<([^<>]*)>", r"\1?", text)
    return re.sub(r"[\s\"'`]|,(?=[\])}])", "", text).lower()


def show(kind: Type, value: Any) -> str:
    """A value as the pages write it."""
    match kind:
        case OptionalType(item):
            return "null" if value is None else show(item, value.value if isinstance(value, Just) else value)
        case ListType(item):
            return f"[{', '.join(show(item, each) for each in value)}]"
        case TaggedType(_, item):
            return show(item, value)
        case TupleType(items):
            return f"({', '.join(show(item, each) for item, each in zip(items, value, strict=True))})"
        case StructType(members):
            parts = (f"{name}: {show(part, each)}" for (name, part), each in zip(members, value, strict=True))
            return f"({', '.join(parts)})"
        case DictType(key, payload):
            # The order of a dictionary is open; the pages have that of the keys.
            pairs = sorted(
                show(key, k) + (f": {show(payload, v)}" if payload != VOID else "") for k, v in value.items()
            )
            return f"{{{', '.join(pairs)}}}"
        case VariantType():
            return str(value[1])
        case Primitive():
            return texts.to_text(kind, value)
    return "[]" if value == [] else "{}" if value == {} else "null" if value is None else str(value)


async def evaluate(text: str) -> list[tuple[tuple[tuple[str, Type], ...], list[Row]]]:
    """The columns and rows of each result."""
    plan = bind(parse(text), {}, "/local", {})
    run = Run(NOW, {}, Fixed(), computed={}, cache={})
    rows: list[list[Row]] = [[] for _ in plan.results]
    async for part in execute(plan, run, NoTables()):
        rows[part.index].extend(part.rows)
    return [(tuple(columns), found) for columns, found in zip(plan.results, rows, strict=True)]


def stated_values(text: str, selects: Sequence[Select]) -> list[tuple[int, int, str]]:
    """The comments behind values: the number of the SELECT, the number of the value, the comment."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def offset(node: Any) -> int:
        return starts[node.at.row - 1] + node.at.column - 1

    places = [
        (offset(item), number, index)
        for number, select in enumerate(selects)
        for index, item in enumerate(select.items)
        if isinstance(item, Item)
    ]
    found: dict[tuple[int, int], list[str]] = {}
    for match in TOKEN.finditer(text):
        before = [(number, index) for start, number, index in places if start < match.start()]
        if match["comment"] is not None and before:
            found.setdefault(before[-1], []).append(match["comment"].strip())
    return [(number, index, " ".join(comments)) for (number, index), comments in found.items()]


def examples(page: str, text: str) -> list[Example]:
    """The examples of a block; none if it does not parse as a whole or reads tables that are not there."""
    try:
        selects = [each for each in parse(text).statements if isinstance(each, Select)]
    except Fault:
        selects = []
        if re.search(r"SELECT.*--", text, re.DOTALL):
            return [Example(page, text.strip(), "", "syntax")]
    stated = stated_values(text, selects)
    if not stated:
        return []
    try:
        results = asyncio.run(evaluate(text))
    except Fault as error:
        said = str(error)
        if "Cannot find table" in said or "Column references are not allowed" in said:
            return []
        return [Example(page, f"{number + 1}.{index + 1}", comment, said) for number, index, comment in stated]
    made = []
    for number, index, comment in stated:
        columns, rows = results[number]
        if len(rows) == 1 and index < len(columns):
            made.append(Example(page, f"{number + 1}.{index + 1}", comment, show(columns[index][1], rows[0][index])))
    return made


def main(folders: Sequence[str]) -> int:
    found: list[Example] = []
    for folder in map(Path, folders):
        for page in sorted(folder.rglob("*.md")):
            for block in BLOCK.findall(page.read_text(encoding="utf-8")):
                found += examples(page.relative_to(folder).as_posix(), block)
    for each in found:
        if not each.agrees:
            print(f"{each.page} {each.value}: {each.stated!r}, and not {each.found!r}")
    agreeing = sum(each.agrees for each in found)
    print(f"{agreeing} of {len(found)} documented values come out as stated")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
