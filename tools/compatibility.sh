#!/usr/bin/env bash
# tools/compatibility.sh [cosmos|mongo|ydb|sqlalchemy] [WORD...]: run the clients' own test suites against Mayfly, all or one of them, and
# write docs/compatibility.md; with other words, run only the files whose names hold one of them, and write nothing. With `clients`,
# run the checks of clients in other languages, and write their sections.
set -euo pipefail
cd "$(dirname "$0")/.."

place=.compatibility
tools/venv.sh test
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

fetch azure-cosmos tests
fetch pymongo test
fetch ydb tests
fetch ydb-sqlalchemy tests setup.cfg
if ! cmp -s compatibility/plugins.txt "$place/plugins/.installed"; then
    rm -rf "$place/plugins"
    pip install --no-deps --require-hashes --target "$place/plugins" -r compatibility/plugins.txt
    cp compatibility/plugins.txt "$place/plugins/.installed"
fi

COMPATIBILITY_PLACE=$PWD/$place exec .venv/bin/python compatibility/run.py "$@"
