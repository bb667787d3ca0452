"""The limits that the ports of one server share."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from mayflydb.evaluation.memory import give_back
from mayflydb.model.quota import Quotas
from mayflydb.sockets.in_flight import BytesInFlight

GIVE_BACK_SECONDS: Final = 0.1
"""The delay between a request to return memory and its return. Buffers are freed meanwhile."""


class SharedLimits(msgspec.Struct, frozen=True):
    """`per_address`: connections from one address to one port. `listeners`: ports that share the process's descriptors."""

    quotas: Quotas
    in_flight: BytesInFlight
    per_address: int
    listeners: int


def build_limits(
    bytes_in_flight: int, transactions: int, transaction_bytes: int, per_address: int, listeners: int
) -> SharedLimits:
    """Build the limits of a server from the values of its settings."""
    quotas = Quotas()
    quotas.get("open_transactions", transactions)
    quotas.get("transaction_bytes", transaction_bytes)
    in_flight = BytesInFlight(quotas.get("bytes_in_flight", bytes_in_flight), _MemoryReturn())
    return SharedLimits(quotas, in_flight, per_address, listeners)


class _MemoryReturn:
    """Returns free memory to the system soon: once for all requests of the delay."""

    def __init__(self) -> None:
        self._is_due = False

    def __call__(self) -> None:
        if not self._is_due:
            self._is_due = True
            # Later, when the buffers are freed.
            asyncio.get_running_loop().call_later(GIVE_BACK_SECONDS, self._start)

    def _start(self) -> None:
        self._is_due = False
        # On a thread: the call releases the interpreter lock.
        asyncio.get_running_loop().run_in_executor(None, give_back)
