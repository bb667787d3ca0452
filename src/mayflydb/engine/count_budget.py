"""Budgets of counts: the number of records that one answer counts exactly, in all its containers together."""

from __future__ import annotations

import msgspec


class CountBudget(msgspec.Struct, frozen=True):
    """The most records whose counts are exact, in all containers of one answer, and the sizes of the samples that estimate more.

    `counted`: records that the store counts by its indexes, about 0.1 s for the default. `read`: records that are read one by
    one, which takes as long. `sample`: the size of the first sample of an answer; later ones are smaller, down to
    `least_sample`.
    """

    counted: int = 1_100_000
    read: int = 10_000
    sample: int = 2000
    least_sample: int = 50


class Allowance:
    """The rest of a budget that one answer about several containers may still use."""

    def __init__(self, budget: CountBudget) -> None:
        self._counted, self._read = budget.counted, budget.read
        self._sample, self._least_sample = budget.sample, budget.least_sample

    def take(self, records: int, by_record: bool) -> bool:
        """Take an exact count of so many records, which are read one by one or not. Return False if the rest is too small."""
        if records > (self._read if by_record else self._counted):
            return False
        if by_record:
            self._read -= records
        else:
            self._counted -= records
        return True

    def take_sample(self) -> int:
        """Return the size of the next sample."""
        size = self._sample
        self._sample = max(self._least_sample, size // 2)
        return size
