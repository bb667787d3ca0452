"""Types as text."""

from __future__ import annotations

from mayflydb.query.yql.syntax import TypeName
from query.yql.printing.names import backtick, is_plain, quote


def type_name(node: TypeName) -> str:
    """Format a type; Optional in its long form, which is valid wherever a type is."""
    name = node.name if is_plain(node.name) else backtick(node.name)
    if node.members is not None:
        pairs = zip(node.members, node.arguments, strict=True)
        return f"{name}<{', '.join(f'{quote(member)}: {_argument(part)}' for member, part in pairs)}>"
    if not node.arguments:
        return f"{name}<>" if node.name.upper() == "TUPLE" else name
    arguments = ", ".join(map(_argument, node.arguments))
    return f"{name}({arguments})" if isinstance(node.arguments[0], int) else f"{name}<{arguments}>"


def _argument(part: TypeName | int | str) -> str:
    if isinstance(part, TypeName):
        return type_name(part)
    return quote(part) if isinstance(part, str) else str(part)
