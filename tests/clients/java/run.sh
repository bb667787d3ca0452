#!/usr/bin/env bash
# run.sh [MAVEN ARGUMENTS]: all checks, against the server that the environment names. Reports go to target/surefire-reports.
set -euo pipefail
cd "$(dirname "$0")"

rm -rf target/surefire-reports
exec mvn -B -q -ntp "$@" test
