#!/usr/bin/env bash
# tools/lint.sh: form, types and import rules. Runs all of them and fails if any does.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
    local name=$1
    shift
    echo "--- $name"
    "$@" || failed+=("$name")
}

step "ruff check" .venv/bin/ruff check .
step "ruff format" .venv/bin/ruff format --check --quiet --diff .
step "mypy" .venv/bin/mypy
step "import rules" .venv/bin/lint-imports --no-logo

if ((${#failed[@]})); then
    printf 'FAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
