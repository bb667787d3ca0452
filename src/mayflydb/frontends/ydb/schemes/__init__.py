"""Tables, views and directories of YDB: what they are, how they come and change, how they are described."""
