#!/usr/bin/env bash
# tools/compatibility.sh [cosmos|mongo|ydb|sqlalchemy] [WORD...]: run the clients' own test suites against Mayfly, all or one of them, and
# write docs/compatibility.md; with other words, run only the files whose names hold one of them, and write nothing. With `clients`,
# run the checks of clients in other languages, and write their sections. With `functional [WORD...]`, run tests of MongoDB's server:
# SAMPLE=n or `all`, SEED=n, WORKERS=n; FUNCTIONAL_TESTS names a copy of their repository, where GitHub is not reached.
set -euo pipefail
cd "$(dirname "$0")/.."

place=.compatibility

mkdir -p "$place"
echo '*' >"$place/.gitignore"

if [[ $* == clients ]]; then
    tools/clients.sh
    exec .venv/bin/python compatibility/run.py clients
fi

# An environment that uv made has no pip of its own.
if .venv/bin/python -m pip --version >/dev/null 2>&1; then
    pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
else
    pip() { uv tool run --quiet --python .venv/bin/python pip --quiet --disable-pip-version-check "$@"; }
fi

# fetch PACKAGE PATH...: unpack these of its source distribution. The lock has the hashes of what is published under that
# version, the source distribution among them.
fetch() {
    local version name=${1//-/_}
    version=$(.venv/bin/python -c 'import sys; from importlib.metadata import version; print(version(sys.argv[1]))' "$1")
    local suite=$name-$version
    local package=$1
    shift
    if [[ ! -d $place/$suite/$1 ]]; then
        sed -n "/^$package==$version /,/[^\\\\]\$/p" requirements.lock >"$place/$name.txt"
        pip download --no-deps --no-binary "$package" --require-hashes --dest "$place" -r "$place/$name.txt"
        # Only the tests: what they are about is the package that is installed.
        tar -xzf "$place/$suite.tar.gz" -C "$place" "${@/#/$suite/}"
    fi
}

if ! cmp -s compatibility/plugins.txt "$place/plugins/.installed"; then
    rm -rf "$place/plugins"
    pip install --no-deps --require-hashes --target "$place/plugins" -r compatibility/plugins.txt
    cp compatibility/plugins.txt "$place/plugins/.installed"
fi

if [[ ${1:-} == functional ]]; then
    export FUNCTIONAL_COMMIT=935605abe70b8f0230ab9a3b3767608e1d57a283
    suite=$place/functional-tests-$FUNCTIONAL_COMMIT
    if [[ ! -d $suite ]]; then
        source=https://github.com/documentdb/functional-tests
        if [[ -n ${FUNCTIONAL_TESTS:-} ]]; then source=$(realpath "$FUNCTIONAL_TESTS"); fi
        rm -rf "$suite.new"
        git init --quiet "$suite.new"
        git -C "$suite.new" fetch --quiet --depth 1 "$source" "$FUNCTIONAL_COMMIT"
        git -C "$suite.new" checkout --quiet FETCH_HEAD
        mv "$suite.new" "$suite"
    fi
    COMPATIBILITY_PLACE=$PWD/$place exec .venv/bin/python compatibility/run.py "$@"
fi

fetch azure-cosmos tests
fetch pymongo test
fetch ydb tests
fetch ydb-sqlalchemy tests setup.cfg

COMPATIBILITY_PLACE=$PWD/$place exec .venv/bin/python compatibility/run.py "$@"
