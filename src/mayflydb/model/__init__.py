"""Records, keys, instants and errors: the words every other package speaks."""
