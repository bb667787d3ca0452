"""Sessions, with the numbered writes and transactions that they make possible."""
