"""Planted bugs: whether a check finds one, by seeds that are always the same, and by any symptom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

SEEDS = range(20)

MISPLANTED = (TypeError, AttributeError, NameError, ImportError)
"""What shows that the code has changed below a bug, so that it is no longer planted."""


def found(check: Callable[[int], object], seeds: Iterable[int] = SEEDS) -> str | None:
    """The first of the seeds by which a check fails, and the symptom; None: it passes with all of them.

    The seeds are fixed, for a random one that misses a bug says nothing about the code. Any error is a symptom, since a bug may
    show itself in several places; which comes first may depend on timing.
    """
    for seed in seeds:
        try:
            check(seed)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
            symptoms = list(_leaves(error))
            assert not isinstance(symptoms[0], MISPLANTED), f"the bug is not planted: {symptoms[0]!r}"
            return f"seed {seed}: {type(symptoms[0]).__name__}: {str(symptoms[0])[:300]}"
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
