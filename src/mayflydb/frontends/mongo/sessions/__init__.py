"""Sessions, with the retryable writes and transactions that they make possible."""
