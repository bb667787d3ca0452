#!/usr/bin/env bash
# run.sh [MAVEN ARGUMENTS]: all checks, against the server that the environment names. Reports go to target/surefire-reports.
set -euo pipefail
cd "$(dirname "$0")"

rm -rf target/surefire-reports target/truststore.p12
mkdir -p target
# As an application is made to trust Mayfly: its certificate goes into a truststore of the JVM's.
keytool -importcert -noprompt -alias mayfly -file "$MAYFLY_CERT" -keystore target/truststore.p12 -storepass changeit 2>/dev/null
exec mvn -B -q -ntp "$@" test
