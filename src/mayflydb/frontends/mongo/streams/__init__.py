"""Change streams: the histories of collections, told as events."""
