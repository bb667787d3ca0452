"""An answer of MongoDB's front end to a command from within the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Reply(msgspec.Struct, frozen=True):
    """An answer of MongoDB's front end.

    `documents`: those of a batch, as BSON. `cursor`: the cursor that has more; 0: none. `charge`: request units, where the
    profile has prices.
    """

    answer: Mapping[str, Any]
    documents: Sequence[bytes] = ()
    cursor: int = 0
    charge: float | None = None
