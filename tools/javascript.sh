#!/usr/bin/env bash
# tools/javascript.sh: the packages that tests need from npm, as their lock says. What cannot be had is named; its tests are
# skipped. With REQUIRE=all that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

place=tests/javascript
tools/system-packages.sh node npm
made=$place/node_modules/.made
[[ -e $made && $made -nt $place/package-lock.json ]] && exit 0
if reason=$(cd "$place" && timeout 180 npm ci --silent --no-audit --no-fund --ignore-scripts </dev/null 2>&1); then
    touch "$made"
    exit 0
fi
rm -rf "$place/node_modules"
echo "NOT RUN: tests in JavaScript and of accessibility (npm cannot install their packages: ${reason:-no reason given})"
[[ ${REQUIRE:-} != all ]]
