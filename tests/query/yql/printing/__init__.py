"""Syntax trees as text; parsing the text gives an equal tree.

`names` has names and literals; `type_names`, `expressions`, `queries`, `definitions` and `statements` build upon those
before them.
"""

from __future__ import annotations

from mayflydb.query.yql.statements import Script
from query.yql.printing.expressions import expression as write_expression
from query.yql.printing.expressions import query as write_query
from query.yql.printing.names import quote
from query.yql.printing.statements import statement as write_statement
from query.yql.printing.type_names import type_name as write_type

__all__ = ["quote", "write", "write_expression", "write_query", "write_statement", "write_type"]


def write(script: Script) -> str:
    """Format a script, one statement a line."""
    return "".join(f"{write_statement(each)};\n" for each in script.statements)
