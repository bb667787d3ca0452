#!/usr/bin/env bash
# tools/compatibility.sh [WORD...]: run the official Python SDK's own test suite against Mayfly and write
# docs/compatibility.md; with words, run only the files whose names hold one of them, and write nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

place=.compatibility
tools/venv.sh test
mkdir -p "$place"
echo '*' >"$place/.gitignore"

# An environment that uv made has no pip of its own.
if .venv/bin/python -m pip --version >/dev/null 2>&1; then
    pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
else
    pip() { uv tool run --quiet --python .venv/bin/python pip --quiet --disable-pip-version-check "$@"; }
fi

version=$(.venv/bin/python -c 'from importlib.metadata import version; print(version("azure-cosmos"))')
suite=$place/azure_cosmos-$version
if [[ ! -d $suite/tests ]]; then
    # The lock has the hashes of what is published under this version, the source distribution among them.
    sed -n "/^azure-cosmos==$version /,/[^\\\\]\$/p" requirements.lock >"$place/sdk.txt"
    pip download --no-deps --no-binary azure-cosmos --require-hashes --dest "$place" -r "$place/sdk.txt"
    tar -xzf "$suite.tar.gz" -C "$place"
fi
if ! cmp -s compatibility/plugins.txt "$place/plugins/.installed"; then
    rm -rf "$place/plugins"
    pip install --no-deps --require-hashes --target "$place/plugins" -r compatibility/plugins.txt
    cp compatibility/plugins.txt "$place/plugins/.installed"
fi

COMPATIBILITY_PLACE=$PWD/$place exec .venv/bin/python compatibility/run.py "$@"
