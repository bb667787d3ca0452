"""Tables, views and directories of YDB: their definitions, changes and descriptions."""
