#!/usr/bin/env bash
# tools/clients.sh: what the projects under tests/clients and clients need, downloaded as their locks say, and built. A missing toolchain and
# a failed download are named, and the tests of that language skipped; with REQUIRE=all that is a failure. A project that does
# not build fails its test, which builds it again and shows why.
set -euo pipefail
cd "$(dirname "$0")/.."

ready=.venv/.clients
code=0
mkdir -p "$ready"

# missing LANGUAGE REASON: name what is not run.
missing() {
    echo "NOT RUN: clients in $1 ($2)"
    [[ ${REQUIRE:-} != all ]] || code=1
}

# prepare LANGUAGE "PROGRAM..." "DOWNLOAD" "BUILD" [FOLDER]: both are run in the folder, by default the language's below tests/clients.
prepare() {
    local place=${5:-tests/clients/${1,,}} program reason
    local word=${1,,}
    word=${word// /-}
    [[ -d $place ]] || return 0
    rm -f "$ready/$word"
    for program in $2; do
        command -v "$program" >/dev/null || { missing "$1" "$program is not installed"; return 0; }
    done
    if ! reason=$(cd "$place" && eval "timeout 240 $3" </dev/null 2>&1); then
        missing "$1" "download failed: $(tail -n 3 <<<"$reason" | tr '\n' ' ')"
        return 0
    fi
    touch "$ready/$word"
    (cd "$place" && eval "timeout 480 $4" </dev/null >/dev/null 2>&1) || echo "$place does not build"
}

prepare Go "go" "go mod download" "go test -count=1 -run '^$' ./..."
prepare Rust "cargo cc" "cargo fetch --locked" "cargo test --locked --no-run"
# Maven knows what it needs when it needs it: a run without tests downloads that, and errors of the compiler are the next step's.
prepare Java "java javac keytool mvn" \
    "mvn -B -q -ntp test -Dtest=None -Dsurefire.failIfNoSpecifiedTests=false -Dmaven.compiler.failOnError=false" \
    "mvn -B -q -ntp -o test-compile"

# The packages for tests of applications, each with the vendors' clients that its own tests use.
prepare "Package JavaScript" "node npm" "npm ci --silent --no-audit --no-fund --ignore-scripts" "true" clients/javascript
prepare "Package Go" "go" "go mod download" "go test -count=1 -run '^$' ./..." clients/go/example
prepare "Package Java" "java javac mvn" \
    "bash -ec 'for junit in 5.10.5 5.14.1 6.1.3; do
        mvn -B -q -ntp test -Djunit.version=\$junit -Dtest=None -Dsurefire.failIfNoSpecifiedTests=false -Dmaven.compiler.failOnError=false
    done'" \
    "mvn -B -q -ntp -o test-compile" clients/java

if [[ $code != 0 ]]; then
    echo "REQUIRE=all: what is missing is a failure" >&2
    exit 1
fi
