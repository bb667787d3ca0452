"""Tables, views and directories of YDB: what they are, how they come and change, how they are described."""

from mayflydb.frontends.ydb.schemes.catalog import SchemeOptions, Schemes

__all__ = ["SchemeOptions", "Schemes"]
