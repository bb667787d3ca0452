"""Planted bugs: whether a check finds one, by seeds that are always the same, and by any symptom."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import pytest

SEEDS = range(20)

MISPLANTED = re.compile(
    r"unexpected keyword argument|positional arguments? but|required positional argument|missing \d+ required"
    r"|does not have the attribute|has no attribute|values to unpack|is not defined|cannot import name|not callable"
)
"""What shows, in a symptom's text, that the code has changed below a bug, so that it is no longer planted."""


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
            for symptom in symptoms:
                assert not MISPLANTED.search(str(symptom)), f"the bug is not planted: {symptom!r}"
            return f"seed {seed}: {type(symptoms[0]).__name__}: {str(symptoms[0])[:300]}"
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
