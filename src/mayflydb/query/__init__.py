"""Query languages: text in, pure functions over decoded values out."""
