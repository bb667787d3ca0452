#!/usr/bin/env bash
# tools/compatibility.sh [cosmos|mongo|unified|ydb|sqlalchemy|ydb-go] [WORD...]: run the clients' own test suites against Mayfly, all or
# one of them, and write docs/compatibility.md; with other words, run only the files whose names hold one of them, and write nothing. With `clients`,
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

# build_go MODULE FOLDER: build the tests that lie in a folder of a module, in a copy of it, as the module pins what they need. The
# version is that of Mayfly's own checks, whose go.sum has the hash.
build_go() {
    local found suite
    command -v go >/dev/null || { echo "NOT RUN: tests of $1 (go is not installed)" >&2; return 0; }
    found=$(cd tests/clients/go && go mod download -json "$1")
    suite=$(.venv/bin/python -c 'import json, re, sys; module = json.loads(sys.argv[1])
print(re.sub(r"/v\d+$", "", module["Path"]).rpartition("/")[2].replace("-", "_") + "-" + module["Version"][1:])' "$found")
    if [[ ! -x $place/$suite/$2/suite.test ]]; then
        mkdir -p "$place/$suite"
        cp -R "$(.venv/bin/python -c 'import json, sys; print(json.loads(sys.argv[1])["Dir"])' "$found")/." "$place/$suite"
        chmod -R u+w "$place/$suite"
        (cd "$place/$suite" && go test -c -tags integration -o "$2/suite.test" "./$2")
    fi
}

case " $* " in *" ydb-go "* | "  ") build_go github.com/ydb-platform/ydb-go-sdk/v3 tests/integration ;; esac

COMPATIBILITY_PLACE=$PWD/$place exec .venv/bin/python compatibility/run.py "$@"
