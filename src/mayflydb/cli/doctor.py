"""`mayfly doctor`: examines a store file, and builds a new one from what can be read of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from mayflydb.cli.admin import CommandFailed
from mayflydb.cli.output import output_option, resolve_form, show
from mayflydb.cli.progress import ProgressLine
from mayflydb.model.errors import MayflyError

if TYPE_CHECKING:
    from mayflydb.store.findings import Finding, Repaired, Report, ReportProgress

T = TypeVar("T")

DAMAGED = 5
"""The exit code where damage was found, or where a repair had to leave something out."""

_MENDING = {
    "repair": "--repair mends it",
    "lost": "cannot be read: --repair leaves it out",
    "none": "a person has to decide",
    "note": "may be as it should be",
}


@click.command()
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@click.option("--repair", "to", metavar="TO", type=click.Path(path_type=Path), help="Build the new file TO from PATH.")
@click.option("--json", "as_json", is_flag=True, help="As -o json.")
@output_option
@click.pass_context
def doctor(ctx: click.Context, path: Path, to: Path | None, as_json: bool) -> None:
    """Examine the store file PATH: pages, indexes, records, entries, expiry events, counters, the clock's mark, the catalogue.

    PATH is only read, and may be served meanwhile. With --repair, what can be read of it is written to TO, which must not exist,
    and what cannot is named. Exit codes: 0 sound, 1 cannot be examined, 5 damaged, or something is left out.
    """
    if as_json:
        ctx.find_root().obj["output"] = "json"
    from mayflydb.serving.stores import examine_file, repair_file

    if to is None:
        report = _run(path, lambda say: examine_file(path, say))
        _show(ctx, report, [_describe_report(report), *_describe_findings(report.findings), _verdict(report)])
        ctx.exit(0 if report.sound else DAMAGED)
    repaired = _run(path, lambda say: repair_file(path, to, say))
    _show(ctx, repaired, [_describe_copy(repaired), *(f"Left out: {line}" for line in _lines(repaired.left_out))])
    ctx.exit(DAMAGED if repaired.left_out else 0)


def _run(path: Path, work: Callable[[ReportProgress], T]) -> T:
    """Run the work, with a line of progress."""
    try:
        with ProgressLine("doctor") as line:

            def say(step: str, done: int, total: int) -> None:
                amount = f": {done:,}" if done else ""
                line.say(f"{step}{amount}{f' of {total:,}' if total else ''}")

            return work(say)
    except MayflyError as error:
        raise CommandFailed(error.message) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename or path}: {error.strerror or error}") from error


def _show(ctx: click.Context, result: Report | Repaired, lines: Sequence[str]) -> None:
    """Print the result: sentences for people, JSON for programs."""
    if resolve_form(ctx.find_root().obj["output"]) in ("table", "wide"):
        for line in lines:
            click.echo(line)
        return
    document = msgspec.to_builtins(result)
    if "findings" in document:
        document = {"sound": result.sound} | document  # type: ignore[union-attr]  # a Report has findings
    show(ctx, document)


def _describe_report(report: Report) -> str:
    checked = (
        "with checksums of pages" if report.page_checksums else "without checksums of pages: some damage stays unseen"
    )
    return (
        f"{report.path}: format {report.format}, {checked}\n"
        f"{report.records:,} records, {report.entries:,} index entries, {report.events:,} expiry events,"
        f" {report.versions:,} versions\n"
        f"{report.file_bytes:,} bytes, of which {report.free_bytes:,} are free; the log has {report.log_bytes:,};"
        f" {report.disk_free_bytes:,} are free on the disk"
    )


def _describe_copy(repaired: Repaired) -> str:
    return (
        f"{repaired.path}: {repaired.records:,} records, {repaired.entries:,} index entries,"
        f" {repaired.events:,} expiry events, {repaired.versions:,} versions"
    )


def _describe_findings(findings: Sequence[Finding]) -> list[str]:
    return [f"{line} ({_MENDING[each.mending]})" for each, line in zip(findings, _lines(findings), strict=True)]


def _lines(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for each in findings:
        more = ", ..." if each.count > len(each.examples) > 0 else ""
        lines.append(f"{each.count:,} x {each.text}" + (f": {'; '.join(each.examples)}{more}" if each.examples else ""))
    return lines


def _verdict(report: Report) -> str:
    return "No damage was found." if report.sound else "The file is damaged."
