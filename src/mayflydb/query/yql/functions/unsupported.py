"""Functions that YDB has and Mayfly does not. A call is refused by name instead of being reported as an unknown function."""

from __future__ import annotations

from typing import Final, NoReturn

from mayflydb.query.yql.expression import Invocation
from mayflydb.query.yql.faults import unsupported

MODULES: Final = frozenset(
    {
        *("compress", "decompress", "file", "fulltext", "hyperloglog", "json2", "pcre", "postgres", "protobuf"),
        *("python", "python3", "javascript", "roaring", "set", "stat", "topfreq", "tskiv", "uuid", "vector"),
    }
)
BUILTINS: Final = frozenset(
    {
        *("block", "currentoperationid", "currentlanguageversion", "dynamiclineartype", "evaluateatom", "evaluatecode"),
        *("evaluateexpr", "filecontent", "filepath", "folderpath", "fromdynamiclinear", "frommutdict", "funccode"),
        *("lambdacode", "lineartype", "listcode", "listcombine", "mutdictinsert", "parsefile", "pgtypehandle"),
        *("pgtypename", "quotecode", "reprcode", "serializecode", "streamtype", "streamtypehandle", "tablename"),
        *("tablepath", "tablerecordindex", "todynamiclinear", "tomutdict", "udf", "weakfield", "withissue"),
        *("withsideeffects", "withsideeffectsmode", "worldcode", "atomcode", "generictype", "positionof"),
    }
)
AGGREGATES: Final = frozenset({"blockwardhistogram", "blockweighthistogram", "randomsample", "randomvalue"})


def refuse(call: Invocation) -> NoReturn:
    """Refuse a call by name; the builder of all functions in this module."""
    raise unsupported(f"Function {call.name}", call.position)
