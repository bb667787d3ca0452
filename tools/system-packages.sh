#!/usr/bin/env bash
# tools/system-packages.sh PROGRAM...: install the Debian packages of these programs where they are missing and that is
# permitted. What cannot be had is named with the reason; its tests are skipped. With REQUIRE=all that is a failure.
# a/b: the program b where a cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

tried=.venv/.system-packages
missing=0

package_of() {
    case $1 in
        node) echo nodejs ;;
        *) echo "$1" ;;
    esac
}

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi; }

install() {
    command -v apt-get >/dev/null || { echo "not a Debian system"; return 1; }
    as_root true 2>/dev/null || { echo "neither root nor password-less sudo"; return 1; }
    as_root env DEBIAN_FRONTEND=noninteractive timeout 180 apt-get install -y -qq --no-install-recommends "$1" \
        </dev/null >/dev/null 2>&1 && return
    as_root timeout 120 apt-get update -qq </dev/null >/dev/null 2>&1 || true
    as_root env DEBIAN_FRONTEND=noninteractive timeout 180 apt-get install -y -qq --no-install-recommends "$1" \
        </dev/null >/dev/null 2>&1 || { echo "apt-get cannot install $1"; return 1; }
}

# PROGRAM: it is there, or is installed now; else its reason is in `reason`.
provide() {
    command -v "$1" >/dev/null && return
    # One attempt per environment, so that a second run installs nothing and waits for nothing.
    if reason=$(grep -m1 "^$1: " "$tried" 2>/dev/null); then
        reason=${reason#*: }
        return 1
    fi
    reason=$(install "$(package_of "$1")") && return
    mkdir -p "$(dirname "$tried")"
    echo "$1: $reason" >>"$tried"
    return 1
}

for choice in "$@"; do
    found=
    for program in ${choice//\// }; do
        if provide "$program"; then
            found=$program
            break
        fi
    done
    [[ -n $found ]] && continue
    echo "NOT RUN: what needs $program ($reason)"
    missing=1
done

if [[ $missing == 1 && ${REQUIRE:-} == all ]]; then
    echo "REQUIRE=all: a missing program is a failure" >&2
    exit 1
fi
