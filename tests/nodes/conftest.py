"""Tests of nodes repeat themselves, and report, as those of reliability do."""

from reliability.conftest import figure, seed

__all__ = ["figure", "seed"]
