#!/usr/bin/env bash
# tools/soak.sh: the tests that run for hours, one after the other. HOURS and SEED reach them through the environment.
set -euo pipefail
cd "$(dirname "$0")/.."

export HOURS=${HOURS:-8}
SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
export SEED

echo "SEED=$SEED HOURS=$HOURS"
tools/venv.sh test
tools/system-packages.sh strace
tools/javascript.sh
code=0
.venv/bin/pytest -m soak -o faulthandler_timeout=0 --hypothesis-seed="$SEED" tests || code=$?
SAMPLE=all tools/compatibility.sh functional || code=$?
echo "SEED=$SEED HOURS=$HOURS"
exit "$code"
