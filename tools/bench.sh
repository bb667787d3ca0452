#!/usr/bin/env bash
# tools/bench.sh [PART...]: measure Mayfly, and beside it @vercel/cosmosdb-server on Node where that can be had; writes
# docs/performance.md and docs/before-and-after.md. bench/run.py finds the other server through BENCH_RIVAL (a command), or the reason why there is none in
# BENCH_NOT_RUN. Redis is measured where it is on PATH or in the directory BENCH_REDIS, FerretDB where BENCH_FERRETDB names its program.
set -euo pipefail
cd "$(dirname "$0")/.."

rival=@vercel/cosmosdb-server@1.0.1
place=.bench/cosmosdb-server

tools/venv.sh test
tools/system-packages.sh node npm wrk strace

BENCH_NOT_RUN=
BENCH_RIVAL=
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    BENCH_NOT_RUN="Node and npm are missing"
elif [[ ! -x $place/node_modules/.bin/cosmosdb-server ]] &&
    ! { mkdir -p "$place" && npm install --silent --no-audit --no-fund --prefix "$place" "$rival" </dev/null; }; then
    BENCH_NOT_RUN="npm cannot install $rival"
else
    BENCH_RIVAL=$PWD/$place/node_modules/.bin/cosmosdb-server
fi
[[ -z $BENCH_NOT_RUN ]] || echo "NOT RUN: the comparison with $rival ($BENCH_NOT_RUN)"

# An environment that uv made has no pip of its own.
if .venv/bin/python -m pip --version >/dev/null 2>&1; then
    pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
else
    pip() { uv tool run --quiet --python .venv/bin/python pip --quiet --disable-pip-version-check "$@"; }
fi
BENCH_PEERS=$PWD/.bench/peers
if ! cmp -s bench/peers.txt "$BENCH_PEERS/.installed"; then
    rm -rf "$BENCH_PEERS"
    if pip install --no-deps --require-hashes --target "$BENCH_PEERS" -r bench/peers.txt; then
        cp bench/peers.txt "$BENCH_PEERS/.installed"
    fi
fi
export BENCH_RIVAL BENCH_NOT_RUN BENCH_PEERS

exec .venv/bin/python bench/run.py "$@"
