"""Trees written as text again; reading that gives an equal tree.

`names` has the small parts; `type_names`, `expressions`, `queries`, `definitions` and `statements` stand each above those before.
"""

from __future__ import annotations

from mayflydb.query.yql.printing.expressions import expression as write_expression
from mayflydb.query.yql.printing.expressions import query as write_query
from mayflydb.query.yql.printing.names import quote
from mayflydb.query.yql.printing.statements import statement as write_statement
from mayflydb.query.yql.printing.type_names import type_name as write_type
from mayflydb.query.yql.statements import Script

__all__ = ["quote", "write", "write_expression", "write_query", "write_statement", "write_type"]


def write(script: Script) -> str:
    """A whole text, a statement a line."""
    return "".join(f"{write_statement(each)};\n" for each in script.statements)
