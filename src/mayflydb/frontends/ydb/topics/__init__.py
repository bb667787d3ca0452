"""Topics: logs of messages with partitions, producers and consumers, and the changefeeds of tables, which write into topics."""
