"""Writes tools/web/words.json: the keywords, types and functions by which the portal's editor colours and completes.

They are those of the languages in `src/mayflydb/query`; `tests/portal/test_vendor.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from mayflydb.query.cosmos_sql import aggregates as cosmos_aggregates
from mayflydb.query.cosmos_sql import functions as cosmos_functions
from mayflydb.query.cosmos_sql.vocabulary import RESERVED, STRICTLY_RESERVED
from mayflydb.query.yql.functions import builtin_names
from mayflydb.query.yql.keywords import KEYWORDS
from mayflydb.query.yql.names import SIMPLE

PLACE = Path(__file__).with_name("words.json")


def words() -> bytes:
    """The content of words.json."""
    languages = {
        "sql": {
            "keywords": _line(RESERVED | STRICTLY_RESERVED | {"TRUE", "FALSE", "NULL", "UNDEFINED"}),
            "types": "",
            "builtin": _line([*cosmos_functions.FUNCTIONS, *cosmos_aggregates.AGGREGATES]),
        },
        "yql": {
            "keywords": _line(KEYWORDS),
            "types": _line(SIMPLE),
            "builtin": _line(builtin_names()),
        },
    }
    return msgspec.json.format(msgspec.json.encode(languages), indent=2) + b"\n"


def _line(names: Iterable[str]) -> str:
    return " ".join(sorted({name.lower() for name in names if not name.startswith("_")}))


if __name__ == "__main__":
    PLACE.write_bytes(words())
