#!/usr/bin/env bash
# tools/test.sh: everything that `make test` does. ONLY: a path below tests/, or a word in the names of tests. SEED: repeats a run.
# ONLY=interpreters is the short suite on the other Pythons alone; without ONLY it follows the whole one.
# ONLY=clients is a step of its own: clients in other languages, whose toolchains and downloads nothing else needs.
set -euo pipefail
cd "$(dirname "$0")/.."

SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
export SEED
# Hundreds of processes import Mayfly. Where none may keep what it has compiled, as in many images, each takes three times as long.
unset PYTHONDONTWRITEBYTECODE
only=${ONLY:-}

echo "SEED=$SEED"
tools/venv.sh test
if [[ $only == interpreters ]]; then
    tools/interpreters.sh list
    tools/interpreters.sh run
    exit
fi
if [[ -z $only ]]; then tools/interpreters.sh list; fi

code=0
share=worksteal
if [[ $only == clients || $only == tests/clients* || $only == clients/* ]]; then
    tools/clients.sh
    # One test runs all checks of a language; each check is a subtest of it, and counted.
    share=loadfile
    selection=(-o verbosity_subtests=1 -o faulthandler_timeout=540)
else
    tools/system-packages.sh strace chromium-headless-shell/chromium
    tools/javascript.sh
    tools/web.sh
    selection=(--ignore=tests/clients)
    echo "Clients in Go, Rust and Java are a step of their own: make test ONLY=clients"
fi
if [[ -n $only ]]; then
    place=
    # Below tests first: `clients` is a folder at the root as well.
    for candidate in "tests/$only" "tests/reliability/$only" "$only"; do
        if [[ -e $candidate ]]; then
            place=$candidate
            break
        fi
    done
    if [[ -n $place ]]; then selection+=("$place"); else selection+=(-k "$only"); fi
else
    # Types are checked in one process, and tests wait now and then: side by side both cores have work.
    lint=$(mktemp)
    trap 'rm -f "$lint"' EXIT
    tools/lint.sh >"$lint" 2>&1 </dev/null &
    linting=$!
fi

echo "--- tests"
.venv/bin/pytest -n "${WORKERS:-2}" --dist "$share" --hypothesis-seed="$SEED" "${selection[@]}" || code=1

if [[ -z $only ]]; then
    wait "$linting" || code=1
    cat "$lint"
    echo "--- the short suite on other Pythons"
    tools/interpreters.sh run || code=1
fi

if [[ $code != 0 ]]; then
    echo "REPLAY: make test SEED=$SEED COMMIT=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)${only:+ ONLY=$only}"
fi
echo "SEED=$SEED"
exit "$code"
