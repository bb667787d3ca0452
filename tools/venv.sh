#!/usr/bin/env bash
# tools/venv.sh runtime|test: make .venv and install what the lock names. Does nothing when that has been done.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=$1
case $kind in
    runtime) lock=requirements-runtime.lock ;;
    test) lock=requirements.lock ;;
    *) echo "usage: tools/venv.sh runtime|test" >&2; exit 2 ;;
esac

# The directory is part of it: a virtual environment holds absolute paths.
mark() { { pwd; cat pyproject.toml "$1"; } | cksum; }

done_already() { [[ -x .venv/bin/python && -f .venv/.installed-$1 && $(<".venv/.installed-$1") == "$(mark "$2")" ]]; }

if done_already "$kind" "$lock" || done_already test requirements.lock; then
    exit 0
fi

find_python() {
    local candidate
    for candidate in python3.11 python3 python3.12 python3.13 python3.14 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "Mayfly needs Python 3.11 or newer, and none was found on PATH" >&2
    return 1
}

echo "installing into .venv ($lock)" >&2
if command -v uv >/dev/null; then
    # uv makes the environment from the same Python, and fetches one only where there is none. With pip, which README names.
    python=$(find_python 2>/dev/null || echo 3.11)
    uv venv --quiet --seed --allow-existing --python "$python" .venv
    uv pip install --quiet --python .venv/bin/python --require-hashes -r "$lock"
    uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
else
    python=$(find_python)
    "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
fi
mark "$lock" >".venv/.installed-$kind"
