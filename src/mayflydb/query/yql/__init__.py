"""YQL, the query language of YDB: parsing, binding to tables and types, and running the plans. Pure: no I/O, no clock."""
