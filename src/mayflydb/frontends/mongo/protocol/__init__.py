"""Wire messages, their compression, and connections."""
