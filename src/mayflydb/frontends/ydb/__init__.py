"""YDB over gRPC."""
