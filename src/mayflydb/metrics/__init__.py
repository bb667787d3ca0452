"""Measurements under `/metrics`, for Prometheus."""
