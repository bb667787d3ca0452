"""What the SDK's suite imports of pytest-docker."""
