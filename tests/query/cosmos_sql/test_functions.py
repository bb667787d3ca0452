"""The table of built-in functions."""

from __future__ import annotations

import pytest

from mayflydb.query.cosmos_sql.functions import FUNCTIONS
from mayflydb.query.cosmos_sql.functions.signature import function
from mayflydb.query.cosmos_sql.values import UNDEFINED


def test_a_contextual_function_with_arguments_is_refused() -> None:
    """A call hands over the query's context alone, so the arguments would be lost."""
    with pytest.raises(ValueError, match="NOWIN is contextual and takes arguments"):
        function("NOWIN", "?s", lambda context, zone: UNDEFINED, contextual=True)
    assert {name for name, each in FUNCTIONS.items() if each.contextual} >= {"RAND", "GETCURRENTTICKS"}
