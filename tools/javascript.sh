#!/usr/bin/env bash
# tools/javascript.sh: the packages that tests need from npm, as their locks say. What cannot be had is named; its tests are
# skipped. With REQUIRE=all that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/system-packages.sh node npm

# FOLDER WHAT: install what the lock in FOLDER names, for the tests of WHAT.
install() {
    local place=$1 made=$1/node_modules/.made reason
    [[ -e $made && $made -nt $place/package-lock.json ]] && return
    if reason=$(cd "$place" && timeout 180 npm ci --silent --no-audit --no-fund --ignore-scripts --omit=optional \
        </dev/null 2>&1); then
        touch "$made"
        return
    fi
    rm -rf "$place/node_modules"
    echo "NOT RUN: tests of $2 (npm cannot install their packages: ${reason:-no reason given})"
    [[ ${REQUIRE:-} != all ]]
}

install tests/javascript "Cosmos DB's client in JavaScript, and of accessibility"
install tests/javascript/mongo "MongoDB's driver and applications in JavaScript"
install tests/javascript/mongosh "MongoDB's shell"
install tests/javascript/ydb "YDB's SDKs in JavaScript"
