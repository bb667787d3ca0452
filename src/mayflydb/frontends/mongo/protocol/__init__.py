"""Bytes: messages, their compression, and the connection they come by."""
