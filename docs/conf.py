"""The documentation's site, built by `make docs`. Reference pages are written from the code before each build."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tools"))

from sphinx.application import Sphinx  # noqa: E402

import reference  # noqa: E402
from mayflydb.version import __version__  # noqa: E402

project = "Mayfly"
release = version = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
# Anchors of headings as repositories show them, so that a link works in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = "Mayfly"
nitpicky = True

reference.write(DOCS / "reference")
reference.write_repository(DOCS / "repository")


def setup(app: Sphinx) -> None:
    """Let links to files of the repository lead to their pages of the site."""
    app.connect("source-read", _lead_links)


def _lead_links(app: Sphinx, page: str, text: list[str]) -> None:
    for name in reference.REPOSITORY:
        text[0] = text[0].replace(f"](../{name}", f"](repository/{name}")
