"""Writes docs/cosmos-headers.md from the table of headers of the Cosmos DB front end.

`tests/frontends/cosmos/unit/test_headers.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mayflydb.frontends.cosmos.headers import TABLE, Header, Treatment

PAGE = Path(__file__).parents[1] / "docs" / "cosmos-headers.md"

TEXT = """# HTTP headers of the Cosmos DB front end

Written by `tools/headers.py` from `src/mayflydb/frontends/cosmos/headers.py`. A header that is not named here is ignored; tests
compare the table with the headers that the vendor's Python client sends.

## Honoured

{honoured}

## Refused

Some values of these headers are refused by name.

{refused}

## Ignored

The note says why the header changes nothing here.

{ignored}

## Headers of answers

{answers}
"""


def page() -> str:
    """The page as it should be."""
    parts = {each.value: _table(row for row in TABLE if row.treatment is each) for each in Treatment}
    return TEXT.format(**parts, answers=_table(row for row in TABLE if row.treatment is None))


def _table(rows: Iterable[Header]) -> str:
    lines = [f"| `{row.name.decode()}` | {row.note} |" for row in sorted(rows, key=lambda row: row.name)]
    return "\n".join(["| header | meaning |", "|---|---|", *lines])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
