"""The handlers of commands; `table` lists all of them."""
