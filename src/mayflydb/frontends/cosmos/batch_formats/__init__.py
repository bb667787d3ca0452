"""The forms in which clients send batches and read their results: JSON, and HybridRow, which is binary."""
