"""Functions that YDB has and Mayfly does not. A call is refused by name instead of being reported as an unknown function."""

from __future__ import annotations

from typing import Final, NoReturn

from mayflydb.query.yql.expression import Invocation
from mayflydb.query.yql.faults import unsupported

MODULES: Final = frozenset(
    {
        *("compress", "decompress", "file", "fulltext", "hyperscan", "hyperloglog", "ip", "json2"),
        *(
            "pcre",
            "pire",
            "postgres",
            "protobuf",
            "python",
            "python3",
            "javascript",
            "roaring",
            "set",
            "stat",
            "topfreq",
        ),
        *("tskiv", "url", "uuid", "vector"),
    }
)
BUILTINS: Final = frozenset(
    {
        *("callable", "currentoperationid", "currentlanguageversion", "dictinsert", "dictupdate", "dictupsert"),
        *("evaluatecode", "evaluateexpr", "evaluatetype", "filecontent", "filepath", "folderpath", "funccode"),
        *("listcombine", "listfold1map", "listunionall", "parsefile", "parsetype"),
        *("quotecode", "reprcode", "serializecode", "stablepickle", "pickle", "unpickle", "tablename", "tablepath"),
        *("tablerecordindex", "typehandle", "udf", "visit", "visitordefault", "weakfield"),
    }
)
AGGREGATES: Final = frozenset({"blockwardhistogram", "blockweighthistogram", "randomsample", "randomvalue"})


def refuse(call: Invocation) -> NoReturn:
    """Refuse a call by name; the builder of all functions in this module."""
    raise unsupported(f"Function {call.name}", call.position)
