"""Stores: `interface` defines them; `sqlite` (file, memory) and `postgres` (PostgreSQL, Citus) implement the interface."""
