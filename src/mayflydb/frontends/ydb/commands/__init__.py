"""What answers each method."""
