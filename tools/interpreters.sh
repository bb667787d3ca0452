#!/usr/bin/env bash
# tools/interpreters.sh list|run: the other supported Pythons of this machine, and the short suite (what is marked `short`) on
# each of them. `list` says which are found, on PATH or among pyenv's versions, and which are not. With REQUIRE=all, one that is
# not found is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

supported=(3.11 3.12 3.13 3.14)

# One that runs: what pyenv puts on PATH for a version that is not active does not.
find_interpreter() {
    local candidate
    while read -r candidate; do
        if "$candidate" -c "import ensurepip, sys; sys.exit(sys.version_info[:2] != (${1/./, }))" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done < <(echo "python$1"; printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1"*/bin/python | sort -rV)
    return 1
}

version_of() { "$1" -c 'import platform; print(platform.python_version())'; }

tested=$(version_of .venv/bin/python)
versions=() pythons=() missing=()
for version in "${supported[@]}"; do
    [[ $tested == "$version".* ]] && continue
    if python=$(find_interpreter "$version"); then
        versions+=("$version")
        pythons+=("$python")
    else
        missing+=("$version")
    fi
done

list() {
    echo "Python $tested (.venv): all tests"
    local n
    for n in "${!versions[@]}"; do
        echo "Python $(version_of "${pythons[n]}") (${pythons[n]}): the short suite"
    done
    for version in ${missing[@]+"${missing[@]}"}; do
        echo "NOT RUN: the short suite on Python $version (it is neither on PATH nor among pyenv's versions)"
    done
    if ((${#missing[@]})) && [[ ${REQUIRE:-} == all ]]; then
        echo "REQUIRE=all: a missing Python is a failure" >&2
        return 1
    fi
}

# VERSION PYTHON: install and test, with what is said about it in a file.
try() {
    tools/venv.sh short ".venv-$1" "$2" && ".venv-$1/bin/pytest" -q -n "$workers" -m short --stores memory "${files[@]}"
}

run() {
    local n code=0 log
    mapfile -t files < <(grep -rlE 'mark\.short\b' --include='test_*.py' tests)
    # Side by side, each in one process: that takes less than one after the other in two.
    workers=$((${#versions[@]} == 1 ? ${WORKERS:-2} : 0))
    local jobs=() logs=()
    for n in "${!versions[@]}"; do
        log=$(mktemp)
        logs+=("$log")
        try "${versions[n]}" "${pythons[n]}" >"$log" 2>&1 </dev/null &
        jobs+=($!)
    done
    for n in "${!versions[@]}"; do
        if wait "${jobs[n]}"; then
            echo "Python ${versions[n]}: $(tail -n 1 "${logs[n]}")"
        else
            code=1
            sed "s/^/${versions[n]}: /" "${logs[n]}"
            echo "Python ${versions[n]}: FAILED"
        fi
        rm -f "${logs[n]}"
    done
    return "$code"
}

case ${1:-} in
    list | run) "$1" ;;
    *) echo "usage: tools/interpreters.sh list|run" >&2; exit 2 ;;
esac
