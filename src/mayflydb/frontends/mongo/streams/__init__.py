"""Change streams: histories of collections, as events."""
