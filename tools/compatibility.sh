#!/usr/bin/env bash
# tools/compatibility.sh [cosmos|mongo|unified|ydb|sqlalchemy|ydb-go] [WORD...]: run the clients' own test suites against Mayfly, all
# or one of them, and write docs/compatibility.md; with other words, run only the files whose names hold one of them, and write
# nothing. With `clients`, run the checks of clients in other languages, and write their sections. With `functional [WORD...]`, run
# tests of MongoDB's server: SAMPLE=n or `all`, SEED=n, WORKERS=n; FUNCTIONAL_TESTS names a copy of their repository, where GitHub is
# not reached. With `yql`, run the examples of YQL's documentation that state their results; YQL_DOCUMENTATION names a copy of YDB's
# repository.
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

if [[ ${1:-} == yql ]]; then
    pages=(yql/essentials/docs/en ydb/docs/en/core/yql)
    clone=${YQL_DOCUMENTATION:-$place/ydb}
    if [[ ! -d $clone ]]; then
        git clone --quiet --depth 1 --filter=blob:none --sparse https://github.com/ydb-platform/ydb "$clone.new"
        git -C "$clone.new" sparse-checkout set "${pages[@]}"
        mv "$clone.new" "$clone"
    fi
    exec .venv/bin/python compatibility/documentation.py "${pages[@]/#/$clone/}"
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
