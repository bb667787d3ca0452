"""What tests measured is printed after the last one, whichever worker ran them."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = [
        f"{report.nodeid.rpartition('/')[2]}: {value}"
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        if report.when == "call"
        for name, value in report.user_properties
        if name == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        for line in sorted(figures):
            terminalreporter.write_line(line)
