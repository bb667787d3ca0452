"""The front end of YDB: gRPC and YQL."""
