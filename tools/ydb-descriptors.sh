#!/usr/bin/env bash
# tools/ydb-descriptors.sh DIRECTORY: make the descriptors of YDB's messages anew, from a checkout of ydb-platform/ydb-api-protos.
# Needs grpcio-tools.
set -euo pipefail
out=$(cd "$(dirname "$0")/.." && pwd)/src/mayflydb/frontends/ydb/descriptors/api.desc
cd "$1"
services=(ydb_{auth,cms,coordination,discovery,export,import,monitoring,operation,query,rate_limiter,scheme,scripting,table,topic}_v1.proto)
python -m grpc_tools.protoc -I. --include_imports --descriptor_set_out="$out" "${services[@]}"
gzip -n9 -f "$out"
