"""The version of the package. In a module of its own, so that modules that name it do not import the package."""

from __future__ import annotations

__version__ = "0.1.0"
