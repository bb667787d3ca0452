#!/usr/bin/env bash
# tools/web.sh: bundle what the portal takes from npm (the editor) into src/mayflydb/portal/static/vendor. Does nothing
# when that has been done. Without Node or the registry the pages do without, as every one of them is a form first; what cannot
# be had is named. With REQUIRE=all that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=tools/web
target=src/mayflydb/portal/static/vendor
stamp=$(cat $sources/package-lock.json $sources/*.js $sources/*.mjs $sources/words.json | cksum)
if [[ -f $target/manifest.json && -f $target/.made && $(<$target/.made) == "$stamp" ]]; then exit 0; fi

# One attempt per lock where there is no registry: `make serve` should not wait for it each time.
tried=$sources/node_modules/.tried
give_up() {
    echo "NOT BUILT: the editor of the portal ($1)" >&2
    [[ ${REQUIRE:-} != all ]] || exit 1
    exit 0
}
command -v node >/dev/null && command -v npm >/dev/null || give_up "there is no Node; pages are forms without it"
if [[ ${REQUIRE:-} != all && -f $tried && $(<$tried) == "$stamp" ]]; then exit 0; fi

echo "bundling the portal's editor" >&2
if ! reason=$(cd $sources && timeout 120 npm ci --silent --no-audit --no-fund --ignore-scripts </dev/null 2>&1); then
    mkdir -p $sources/node_modules
    echo "$stamp" >$tried
    give_up "npm cannot install their packages: ${reason:-no reason given}"
fi
reason=$(node $sources/build.mjs 2>&1) || give_up "esbuild: $reason"
echo "$stamp" >$target/.made
