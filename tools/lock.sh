#!/usr/bin/env bash
# tools/lock.sh: resolve the lock files anew. Needs uv. The runtime lock holds the versions of the full one.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v uv >/dev/null || { echo "make lock needs uv (pip install uv)" >&2; exit 1; }

options=(--quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links
    --group build)
uv pip compile "${options[@]}" --upgrade --extra test -o requirements.lock pyproject.toml
uv pip compile "${options[@]}" --upgrade --extra scripts -c requirements.lock -o requirements-runtime.lock pyproject.toml
