"""The store for more than one machine: PostgreSQL 15 and later, through asyncpg."""

from mayflydb.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
