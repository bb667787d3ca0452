"""The command line. Each command's module is imported when its command runs, so that `mayfly --version` is quick."""

from __future__ import annotations

FORMS = ("auto", "table", "json", "jsonl")
"""What -o takes."""
