"""The same requests on each Python that Mayfly supports and that is found here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from figures import Figure, Table, not_run
from protocol import Target, rounds
from servers import mayfly, resident_mb
from wrk import Wrk

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).parents[1]
KINDS = ("read", "upsert")


def pythons(wrk: Wrk, place: Path) -> Iterator[Figure | Table]:
    """Processor time of a read and of an upsert, in turn on servers of all versions."""
    if wrk.program is None:
        yield not_run("Python versions", "wrk is missing")
        return
    with ExitStack() as stack:
        targets, resident = {}, {}
        for version, python in _environments():
            server = stack.enter_context(mayfly(str(place / f"{version}.db"), python=python))
            resident[version] = resident_mb(server.pid)
            targets[version] = Target(wrk, version, server)
        rounds([partial(each.rate, kind) for each in targets.values() for kind in KINDS], 3)
        rows = [
            (version, *(f"{each.cost(kind):.1f} us" for kind in KINDS), f"{resident[version]:.0f} MB")
            for version, each in targets.items()
        ]
    yield Table("pythons", ("Python", "point read", "upsert", "resident when ready"), tuple(rows))


def _environments() -> Iterator[tuple[str, str]]:
    """(Version, interpreter with Mayfly) of each. Environments are those of the short suite, made where they are missing."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for version in VERSIONS:
        if version == own:
            yield version, sys.executable
        elif python := _interpreter(version):
            environment = f".venv-{version}"
            done = subprocess.run(
                ["tools/venv.sh", "short", environment, python], cwd=ROOT, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                yield version, str(ROOT / environment / "bin" / "python")
            else:
                print(f"NOT RUN: Python {version}: {done.stderr[-300:]}", file=sys.stderr)


def _interpreter(version: str) -> str | None:
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [
        shutil.which(f"python{version}"),
        *sorted(map(str, home.glob(f"{version}*/bin/python")), reverse=True),
    ]
    for each in candidates:
        # What pyenv puts on PATH for a version that is not active does not run.
        if each and subprocess.run([each, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0:
            return each
    return None
