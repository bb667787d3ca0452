"""Result sets that come in several parts."""

from __future__ import annotations

import pytest

from mayflydb.cli.ydb.results import Printer
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.packing import rows_encoder
from mayflydb.frontends.ydb.values import columns_field
from mayflydb.query.yql.types import UTF8


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("pretty", '┌─────┐\n│ a   │\n├─────┤\n│ "x" │\n└─────┘\n┌─────┐\n│ "y" │\n└─────┘\n'),
        ("json-unicode", '{"a":"x"}\n{"a":"y"}\n'),
        ("json-unicode-array", '[{"a":"x"},\n{"a":"y"}]\n'),
        ("csv", '"x"\n"y"\n'),
    ],
)
@pytest.mark.parametrize("always", [True, False])
def test_parts(capsys: pytest.CaptureFixture[str], form: str, expected: str, always: bool) -> None:
    """`always`: the columns stand in every part, not in the first one alone."""
    columns, encode = columns_field([("a", UTF8)]), rows_encoder([UTF8])
    printer = Printer(form)
    for number, text in enumerate(("x", "y")):
        block = columns if always or not number else b""
        printer.add(0, message("Ydb.ResultSet").FromString(block + encode([(text,)])))
    printer.end()
    assert capsys.readouterr().out == expected
