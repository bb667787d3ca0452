"""Pages of YDB's databases, tables and rows."""
