"""The command line. Each command's module is imported when its command runs, so that `mayfly --version` is quick."""

from __future__ import annotations

FORMS = ("auto", "table", "wide", "json", "jsonl")
"""What -o takes: `wide` is a table with everything that is known, however long its lines."""
