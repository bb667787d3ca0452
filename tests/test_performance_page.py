"""The page and the plots that `make bench` writes."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BENCH = Path(__file__).parents[1] / "bench"

ABOUT = {
    "date": "Mon, 23 Nov 2026 07:19:34 GMT",
    "mayfly": "0.1.0 (abc)",
    "python": "3.11.7, SQLite 3.54.1",
    "processor": "2 x Processor",
    "system": "Linux 6",
    "busy before": "4% of the processors, by others",
    "fdatasync of 4 KB": "0.54 ms at the median of 30",
    "rival": "none",
    "load generator": "wrk 4",
}
EMPTY = "before\n<!-- purge -->\nold\n<!-- end of purge -->\nbetween\n<!-- growth -->\nkept\n<!-- end of growth -->\nafter\n"


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory with a page of two parts, in the place of `docs`."""
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import page

    (tmp_path / "performance.md").write_text(EMPTY, encoding="utf-8")
    monkeypatch.setattr(page, "DOCS", tmp_path)
    monkeypatch.setattr(page, "PAGES", (tmp_path / "performance.md",))
    return tmp_path


def test_a_part_replaces_its_own_rows_alone(docs: Path) -> None:
    import page
    from figures import Figure, at_most, not_run, rate

    name = next(iter(page.PURGES))
    rows: list[Figure] = [
        rate(name, 58_500.0, 400_000, "a | b", "17 us against 2.4 us"),
        at_most("log", 0.2, "bytes", 0.3, "log"),
        not_run("more", "no disk"),
    ]
    page.write("purge", rows, ABOUT)
    page.write("unknown", rows, ABOUT)
    text = (docs / "performance.md").read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- purge -->\n| what |") and "old" not in text
    assert text.endswith("<!-- end of purge -->\nbetween\n<!-- growth -->\nkept\n<!-- end of growth -->\nafter\n")
    assert f"| {name} | 58,500/s | 17 µs against 2.4 µs | ≥ 400,000/s | **no** | a   b |" in text
    assert "| log | 0.20 bytes |  | ≤ 0.3 bytes | yes | log |" in text
    assert "| more | NOT RUN |  |  |  | no disk |" in text
    assert "Measured on 23 Nov 2026 at 0.1.0 (abc)" in text and "busy" not in text
    drawn = ET.fromstring((docs / "performance-purge.svg").read_text(encoding="utf-8"))
    assert [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")][1:] == [
        page.PURGES[name],
        "58,500 /s",
    ]


def test_a_busy_machine_is_told(docs: Path) -> None:
    import page

    page.write("growth", [], ABOUT | {"busy before": "35% of the processors, by others"})
    assert "**The machine was busy with other work (35 %)" in (docs / "performance.md").read_text(encoding="utf-8")


def test_growth_is_drawn_as_shares_of_the_first_value(docs: Path) -> None:
    import page
    from figures import Table

    numbers: dict[str, tuple[tuple[float, float], ...]] = {
        "point read": ((10.0, 20.0), (1000.0, 22.0)),
        "count": ((10.0, 5.0), (1000.0, 50.0)),
    }
    page.write("growth", [Table("growth", ("of a", "10"), (("point read", "20 us"),), numbers)], ABOUT)
    text = (docs / "performance.md").read_text(encoding="utf-8")
    assert "| of a | 10 |\n| --- | --- |\n| point read | 20 µs |" in text
    drawn = ET.fromstring((docs / "performance-growth.svg").read_text(encoding="utf-8"))
    space = "{http://www.w3.org/2000/svg}"
    heights = [float(each.attrib["cy"]) for each in drawn.iter(f"{space}circle")]
    # Ten times as much is as far above as its logarithm says.
    step = (heights[2] - heights[3]) / math.log(10)
    assert [math.exp((heights[0] - height) / step) for height in heights] == pytest.approx([1, 1.1, 1, 10], rel=0.01)
    names = [each.text for each in drawn.iter(f"{space}text")]
    assert {"point read", "count", "10", "1,000", "10 x"} <= set(names)


def test_a_cell_has_the_figures_in_short(docs: Path) -> None:
    import page
    from figures import at_most, rate

    # A part that was never measured has nothing between its marks.
    empty = "<!-- undelete -->\n<!-- end of undelete -->\n"
    cell = "| a | <!-- undelete in short -->old<!-- end of undelete in short --> | b |\n"
    (docs / "performance.md").write_text(empty + cell + EMPTY, encoding="utf-8")
    page.write("undelete", [rate("undelete", 35_000.0, None, "how"), at_most("wait", 3, "ms", 2, "how")], ABOUT)
    text = (docs / "performance.md").read_text(encoding="utf-8")
    told = "undelete: 35,000/s; wait: 3.00 ms (goal ≤ 2 ms, missed)"
    head, _, rest = text.partition("<!-- end of undelete -->\n")
    assert head.startswith("<!-- undelete -->\n| what |")
    assert rest.startswith(f"| a | <!-- undelete in short -->{told}<!-- end of undelete in short --> | b |\nbefore\n")


def test_the_pages_have_a_place_for_every_part_and_each_part_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import page
    import run
    from lifecycle import LIFECYCLE

    performance, before_and_after = (each.read_text(encoding="utf-8") for each in page.PAGES)
    expected = [name for name in run.parts() if name not in run.ONLY_BY_NAME]
    assert sorted(expected) == sorted(name for name in run.parts() if f"<!-- {name} -->\n" in performance)
    assert performance.count("<!-- end of ") == len(expected)
    for name in LIFECYCLE:
        for mark in (name, f"{name} in short"):
            assert (
                before_and_after.count(f"<!-- {mark} -->") == before_and_after.count(f"<!-- end of {mark} -->") == 1
            ), mark
    assert before_and_after.count("<!-- end of ") == 2 * len(LIFECYCLE)
    for plot in ("performance-growth.svg", "performance-purge.svg"):
        assert f"]({plot})" in performance


def test_the_eight_features_stand_in_order_each_with_figures_and_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import page
    from lifecycle import LIFECYCLE

    text = page.PAGES[1].read_text(encoding="utf-8")
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if re.match(r"\| \d(\.\d)? \|", line)]
    numbers = [row[0] for row in rows]
    assert numbers == sorted(set(numbers)) and {number[0] for number in numbers} == set("12345678")
    assert {len(row) for row in rows} == {8}, "an empty cell, or one too many"
    # Another place tells what all of them cost where none is used.
    shown = [re.findall("<!-- ([a-z-]+) in short -->", row[6]) for row in rows]
    assert sorted(name for names in shown for name in names) == sorted(LIFECYCLE.keys() - {"unused"})
    assert {len(names) for names in shown} == {1}
    root = BENCH.parent
    for row in rows:
        pages, tests = re.findall(r"\]\(([a-z-]+\.md)", row[1]), re.findall("`(tests/[^`]+)`", row[7])
        assert pages and tests, row[1]
        assert [path for path in [*(f"docs/{each}" for each in pages), *tests] if not (root / path).exists()] == []
