"""The real server as a process that can be killed at any moment, and started again on the same file."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

PROGRAM = "from mayflydb.cli.main import main; main()"

# Importing takes most of a start. This process imports once and forks a server for each line it reads.
NURSERY = """
import gc, json, os, sys
from mayflydb.cli.main import main
import mayflydb.cli.serve, mayflydb.serving.process, mayflydb.serving.web_app
import mayflydb.frontends.mongo.app, mayflydb.frontends.mongo.protocol.connection, mayflydb.frontends.mongo.protocol.compression
if sys.argv[1:] == ["ydb"]:
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    import mayflydb.frontends.ydb.app, mayflydb.frontends.ydb.server
from reliability.eager import make_rounds_eager
make_rounds_eager()
gc.freeze()
for line in sys.stdin:
    child = os.fork()
    if not child:
        sys.argv = ["mayfly", *json.loads(line)]
        main()
    os.waitpid(child, 0)
    print(json.dumps({"event": "ended"}), flush=True)
"""

PATIENCE = 60.0


class Server:
    """One server at a time on one file.

    `ydb`: whether it serves YDB; to load that is most of a start, and no server that is forked can bring it along. `options`:
    more of its command line.
    """

    def __init__(self, directory: Path, ydb: bool = False, options: Sequence[str] = ()) -> None:
        self._options = options
        self.file = directory / "mayfly.db"
        self._with_ydb = ydb
        self._directory = directory
        self._log = (directory / "stderr").open("ab")
        self._nursery = self._popen([sys.executable, "-c", NURSERY, *(["ydb"] if ydb else [])])
        self._traced: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self.pid = 0
        self.port = 0
        self.ydb = ""
        self.starts = 0

    def _popen(self, command: list[str]) -> subprocess.Popen[bytes]:
        places = {
            "XDG_DATA_HOME": str(self._directory),
            "HOME": str(self._directory),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=self._directory,
            # Variables for tests, such as the URL of a Citus, are none of the server's settings.
            env={name: value for name, value in os.environ.items() if not name.startswith("MAYFLY_")} | places,
        )

    @property
    def _arguments(self) -> list[str]:
        ports = ["-p", "0"] if self._with_ydb else ["-p", "0", "--ydb-port", "-1"]
        return ["serve", str(self.file), *ports, "--sweep-interval", "50ms", *self._options]

    def start(self) -> None:
        """A new server; returns when it is ready."""
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(self._arguments).encode() + b"\n")
        self._nursery.stdin.flush()
        assert self._ready(self._nursery), self.stderr()

    def start_refused(self) -> str:
        """A server that must not come up: what it wrote before it ended."""
        assert self._nursery.stdin is not None
        before = len(self.stderr())
        self._nursery.stdin.write(json.dumps(self._arguments).encode() + b"\n")
        self._nursery.stdin.flush()
        said = b""
        while json.loads(line := self._line(self._nursery)) != {"event": "ended"}:
            said += line + b"\n"
        assert b'"ready"' not in said, said
        return said.decode() + self.stderr()[before:]

    def start_traced(self, *strace: str) -> bool:
        """A new server in a process of its own, under strace; False when it was killed before it was ready."""
        return self.start_through("strace", "-f", "-qq", "-o", "/dev/null", *strace)

    def start_through(self, *program: str) -> bool:
        """A new server in a process of its own, started through another program; False when it ended before it was ready."""
        self._buffer = b""
        self._traced = self._popen([*program, sys.executable, "-c", PROGRAM, *self._arguments])
        return self._ready(self._traced)

    def _ready(self, process: subprocess.Popen[bytes]) -> bool:
        line = self._line(process)
        if not line:
            return False
        ready = json.loads(line)
        assert ready["event"] == "ready", f"{ready}\n{self.stderr()}"
        self.pid = ready["pid"]
        self.port = int(ready["admin"].removesuffix("/_mayfly").rpartition(":")[2])
        self.ydb = (ready.get("ydb") or {}).get("endpoint", "")
        self.starts += 1
        return True

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert readable, f"nothing happened for {PATIENCE} s\n{self.stderr()}"
            read = os.read(process.stdout.fileno(), 65536)
            if not read:
                return b""
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has taken everything away from it."""
        os.kill(self.pid, signal.SIGKILL)
        self.ended()

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        os.kill(self.pid, signal.SIGTERM)
        while json.loads(self._line(self._nursery)) != {"event": "ended"}:
            pass
        self.pid = 0

    def ended(self) -> None:
        """Wait for an end that is certain."""
        if self._traced is not None:
            traced, self._traced = self._traced, None
            traced.communicate(timeout=PATIENCE)
            self._buffer = b""
        else:
            assert json.loads(self._line(self._nursery)) == {"event": "ended"}
        self.pid = 0

    def stderr(self) -> str:
        """What servers have written there."""
        self._log.flush()
        return (self._directory / "stderr").read_text(errors="replace")[-2000:]

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        for process in (self._traced, self._nursery):
            if process is not None:
                process.kill()
                process.communicate()
        self._log.close()
