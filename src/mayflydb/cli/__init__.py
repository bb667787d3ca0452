"""The command line. Each command's module is imported when its command runs, so that `mayfly --version` is quick."""

from __future__ import annotations

FORMS = ("auto", "table", "wide", "json", "jsonl")
"""The values of -o. `wide` is a table with all columns, however long its lines."""
