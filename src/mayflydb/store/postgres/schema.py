"""The tables of a database, and their format version.

All tables lie in the schema `mayfly`. As in a file, two partial indexes are the due paths and no deadline is stored.

A write transaction locks the catalogue row of each container that it touches. So on all nodes together the writes of one
container come one after the other, and their lsns follow the order of their commits. A transaction that reads names or allocates
a catalogue id locks the row `next_id` of `meta`; one that writes expiry events, the row `events`.

With Citus the records, their entries, expiry events and histories are distributed over its workers by the hash of the partition
(`citus`), so each of their keys contains it.
"""

from __future__ import annotations

from mayflydb.model.order import FIRST_ORDERED

FORMAT = 6
HAS_DEFAULT_TTL = "anchor IS NOT NULL AND (override IS NULL OR override = 0)"
HAS_OWN_TTL = "anchor IS NOT NULL AND override > 0"
DEADLINE = "(anchor + override * 1000000)"

DATE = "(('x' || encode({0}, 'hex'))::bit(64)::bigint # (-9223372036854775808)::bigint)"
"""The date that an entry's key encodes, as `due.date_of`."""

RECORD = "partition, key, value, written, anchor, override, lsn, seq, exact_anchor, checksum"
"""The columns that `record_of` takes."""

HISTORY = """
CREATE TABLE mayfly.history(
    container bigint NOT NULL, lsn bigint NOT NULL, hash bigint NOT NULL, seq bigint NOT NULL, previous bigint NOT NULL,
    written bigint NOT NULL, checksum bigint, kind text NOT NULL, partition bytea NOT NULL, key bytea NOT NULL,
    value bytea NOT NULL, PRIMARY KEY(container, lsn, hash));
ALTER TABLE mayfly.history ALTER COLUMN value SET STORAGE EXTERNAL;
"""

HELD = """
CREATE TABLE mayfly.held(
    node bigint NOT NULL REFERENCES mayfly.node ON DELETE CASCADE, number bigint NOT NULL, container bigint NOT NULL,
    partition bytea NOT NULL, key bytea NOT NULL, PRIMARY KEY(node, number));
CREATE INDEX held_container ON mayfly.held(container);
"""

ENTRY_IDENTITY = "ALTER TABLE mayfly.entry REPLICA IDENTITY FULL;"
"""Lets Citus move shards, and others replicate, while entries are removed: the whole row names an entry, which has no key.

A primary key is no choice: one statement replaces entries, and PostgreSQL may check the new row before the old one is gone.
"""

NODE_PROCESS = "ALTER TABLE mayfly.node ADD COLUMN process text, ADD COLUMN session text;"
"""Tells other nodes by which process and connections a node may be found."""

TABLES = f"""
CREATE SCHEMA mayfly;
CREATE TABLE mayfly.meta(name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE mayfly.setting(name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE mayfly.catalog(
    id bigint PRIMARY KEY, parent bigint NOT NULL, name bytea NOT NULL, data bytea NOT NULL,
    lsn bigint NOT NULL, seq bigint NOT NULL, UNIQUE(parent, name)) WITH (fillfactor = 50);
CREATE TABLE mayfly.dropped(container bigint PRIMARY KEY);
CREATE TABLE mayfly.record(
    container bigint NOT NULL, seq bigint NOT NULL, hash bigint NOT NULL, identity bigint NOT NULL,
    written bigint NOT NULL, anchor bigint, override bigint, lsn bigint NOT NULL, checksum bigint NOT NULL,
    exact_anchor text, partition bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
    PRIMARY KEY(container, seq, hash));
ALTER TABLE mayfly.record ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE INDEX record_identity ON mayfly.record(container, identity);
CREATE INDEX record_hash ON mayfly.record(container, hash, seq);
CREATE INDEX record_lsn ON mayfly.record(container, lsn);
CREATE INDEX record_anchor ON mayfly.record(container, anchor, seq) WHERE {HAS_DEFAULT_TTL};
CREATE INDEX record_deadline ON mayfly.record(container, {DEADLINE}, seq) WHERE {HAS_OWN_TTL};
CREATE INDEX record_ignored ON mayfly.record(container) WHERE override = 0;
CREATE TABLE mayfly.entry(
    container bigint NOT NULL, hash bigint NOT NULL, record bigint NOT NULL, number integer NOT NULL,
    digest bigint NOT NULL, key bytea NOT NULL);
CREATE INDEX entry_key ON mayfly.entry(container, number, digest);
CREATE INDEX entry_range ON mayfly.entry(container, number, key, record) WHERE number >= {FIRST_ORDERED};
CREATE INDEX entry_record ON mayfly.entry(container, record);
{ENTRY_IDENTITY}
CREATE TABLE mayfly.expiry(
    id bigint NOT NULL, hash bigint NOT NULL, container bigint NOT NULL, partition bytea NOT NULL, key bytea NOT NULL,
    version bigint NOT NULL, lsn bigint NOT NULL, anchor bigint NOT NULL, override bigint, cause text NOT NULL,
    rule_version bigint NOT NULL, deadline bigint NOT NULL, purged bigint NOT NULL, how text NOT NULL,
    PRIMARY KEY(id, hash), UNIQUE(container, version, hash));
{HISTORY}CREATE SEQUENCE mayfly.writer;
CREATE TABLE mayfly.outcome(writer bigint NOT NULL, number bigint NOT NULL, PRIMARY KEY(writer, number));
CREATE TABLE mayfly.node(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, seen timestamptz NOT NULL, catalog bigint NOT NULL,
    alone boolean NOT NULL, knows bigint NOT NULL DEFAULT 0, process text, session text);
CREATE TABLE mayfly.lease(name text PRIMARY KEY, node bigint NOT NULL, until timestamptz NOT NULL);
{HELD}INSERT INTO mayfly.meta(name, value) VALUES ('format', {FORMAT}), ('next_id', 0), ('events', 0), ('catalog', 0);
"""
