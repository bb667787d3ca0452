"""YDB's ports."""
