"""Types as text."""

from __future__ import annotations

from mayflydb.query.yql.syntax import TypeName
from query.yql.printing.names import backtick, is_plain, parameter, quote


def type_name(node: TypeName) -> str:
    """Format a type; Optional in its long form, which is valid wherever a type is."""
    if node.name.startswith("$"):
        return parameter(node.name[1:])
    name = node.name if is_plain(node.name) else backtick(node.name)
    if node.name.upper() == "CALLABLE" and node.arguments:
        return f"{name}<{_callable(node)}>"
    if node.members is not None:
        pairs = zip(node.members, node.arguments, strict=True)
        return f"{name}<{', '.join(f'{quote(member)}: {_argument(part)}' for member, part in pairs)}>"
    if not node.arguments:
        return f"{name}<>" if node.name.upper() == "TUPLE" else name
    arguments = ", ".join(map(_argument, node.arguments))
    return f"{name}({arguments})" if isinstance(node.arguments[0], int) else f"{name}<{arguments}>"


def _callable(node: TypeName) -> str:
    optional, result, *given = node.arguments
    assert isinstance(optional, int) and isinstance(result, TypeName)
    texts = []
    for place, each in enumerate(given):
        assert isinstance(each, TypeName) and each.members is not None
        label, *flags = each.members
        text = (f"{quote(label)}: " if label else "") + _argument(each.arguments[0]) + "{Flags: AutoMap}" * len(flags)
        texts.append("[" * (place == len(given) - optional) + text)
    return f"({', '.join(texts)}{']' * (optional > 0)}) -> {type_name(result)}"


def _argument(part: TypeName | int | str) -> str:
    if isinstance(part, TypeName):
        return type_name(part)
    return quote(part) if isinstance(part, str) else str(part)
