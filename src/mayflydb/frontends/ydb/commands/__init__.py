"""Handlers of the gRPC methods."""
