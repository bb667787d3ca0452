"""Why tests fail: the table that failures are grouped by. It counts nothing, and what it does not know stays unexplained."""

from __future__ import annotations

import re

import msgspec
from outcomes import File, Outcome, Test


class Reason(msgspec.Struct, frozen=True):
    """A failure belongs here if `id` is found in the id of its test and `said` in what the test said, traceback included."""

    title: str
    id: str = ""
    said: str = ""


UNEXPLAINED = "Not explained"
_REFUSED = re.compile(r"([^\":\[\]()]{1,120}?) (?:is|are) not supported(?: by Mayfly|, full error|'\})")

# Failures that no server could prevent, the service included: none is asked.
BROKEN = [
    Reason(
        "The test's own mock does not fit the version of the SDK that it is published with",
        id="^test_container_rid_header_unit",
        said="RuntimeError: evaluate_drain_page invoked with status_code=None",
    ),
    Reason(
        "It reads a file that is not in the source distribution",
        said=r"FileNotFoundError: .*BaselineTest\.PathParser\.json",
    ),
    Reason(
        "It takes a fixed port of the machine, which something else had",
        id="test_oauth2_token_exchange_credentials",
        said="Address already in use",
    ),
    Reason(
        "The dialect's suite defines tables with fewer columns than this release of SQLAlchemy asks for",
        id="test_get_multi_columns",
        said="comment_test",
    ),
    Reason(
        "The dialect's compiler gives no warning of DISTINCT ON, which this release of SQLAlchemy waits for",
        id="test_distinct_on",
        said="Warnings were not seen",
    ),
]

# What a test asks for in code of its own, so that it fails instead of being skipped.
NEEDS = [
    Reason(
        "an Atlas cluster and its search indexes",
        id="test_index_management",
        said="KeyError: 'DB_USER'|localhost:27017",
    ),
    Reason(
        "coordination nodes, which are no tables, and limits of rates in them",
        id="^(coordination|ratelimiter)_test",
        said=r"CoordinationService\.\w+ is not supported",
    ),
    Reason(
        "data that lies outside of the database",
        id="TestDescribeExternal",
        said="CREATE EXTERNAL DATA SOURCE is not supported",
    ),
    Reason(
        "pyarrow, which is not installed with Mayfly",
        id="arrow",
        said="Arrow format are not supported without pyarrow",
    ),
]

# The first that fits.
REASONS = [
    Reason(
        "Fails and passes by turns: it counts what background threads do",
        id="TestHealthCheck::test_health_check_success",
    ),
    Reason(
        "Fails and passes by turns: the client allows less than a millionth of a second, and the answer may be there already",
        id="timeout",
        said="not raised|Read timed out|already exists|Resource Not Found",
    ),
    Reason(
        "Fails and passes by turns: the client's background thread replaces the regions that the test puts into its cache",
        id="test_cross_region_retry",
        said="== 'other-region'",
    ),
    Reason(
        "The service seems to go on from a continuation token of another container and account; Mayfly refuses it",
        id="with_static_continuation",
        said="is not a token that was issued",
    ),
    Reason(
        "All that a batch of the service writes has one LSN; with Mayfly each write has its own",
        id="test_batch_lsn",
        said=r"assert \d+ == \(\d+ - 1\)",
    ),
    Reason(
        "The service counts a partition from its index, and says that it has read no items; Mayfly reads them, and says so",
        id="count_is_index_only",
    ),
    Reason(
        "Items with equal scores come in the order of their rids, which the service numbers by partition",
        id="test_hybrid_search_queries",
        said=r"assert \d+ in \[61, 51, 49",
    ),
    Reason(
        "Transactions have no recovery token, which is for going on with another mongos: there is one, and it knows them all",
        id="MongosRecoveryToken|PinMongos|MongosPinAuto",
        said="recoveryToken|has no attribute 'get'|commitTransaction\" succeeded",
    ),
    Reason(
        "Refused by name: making collections and indexes with commands inside a transaction",
        id="^test/",
        said="Cannot run 'create(Indexes)?' in a multi-document transaction",
    ),
    Reason(
        "A collection that a transaction writes to is made at once, not with its commit",
        id="test_implicitly_create_collection_using_insert",
        said="unexpectedly found in",
    ),
    Reason(
        "It gives commands to shards, of which there are none", said="no such command: '(checkMetadataCons|shardColl)"
    ),
    Reason(
        "It needs a command that MongoDB has for tests of its API's versions alone",
        said="testversion2",
    ),
    Reason(
        "It makes tables without a primary key, which YDB refuses as well",
        id="^tests/integration/test_suite",
        said="Primary key is required for ydb tables",
    ),
    Reason(
        "It wants the length of a column of text back, which no type of YDB has",
        id="test_string_length_reflection",
    ),
    Reason(
        "The dialect writes the type `Decimal(None, None)`, which is none",
        id="test_truediv_divisor",
        said=r"mismatched input \\*'None\\*'",
    ),
    Reason(
        "It needs what YDB has not: numbers of 38 digits, or a cast from Double to Decimal",
        id="test_truediv_divisor",
        said="number limit overflow|Invalid decimal precision|Cannot cast type Double into Decimal",
    ),
    Reason(
        "It logs in where nobody has to: without `--ydb-auth` any password will do for the user `root`",
        id="test_ydb_credentials_bad",
        said="DID NOT RAISE",
    ),
]


def sifted(file: File) -> File:
    """The file with those of its failures told apart that have nothing to do with the server."""
    return msgspec.structs.replace(file, tests=[_sifted(test) for test in file.tests])


def _sifted(test: Test) -> Test:
    if test.outcome is Outcome.FAILED and any(_fits(reason, test) for reason in BROKEN):
        return msgspec.structs.replace(test, outcome=Outcome.BROKEN)
    for reason in NEEDS:
        if test.outcome is Outcome.FAILED and _fits(reason, test):
            return msgspec.structs.replace(test, outcome=Outcome.NOT_APPLICABLE, said=reason.title)
    return test


def why(test: Test) -> str:
    """The heading under which a failed test is listed. A feature that Mayfly refused by name is its own heading."""
    for reason in (*BROKEN, *REASONS):
        if _fits(reason, test):
            return reason.title
    if named := _REFUSED.search(test.said):
        return "Refused by name: " + named[1].lstrip(" {'")
    return UNEXPLAINED


def _fits(reason: Reason, test: Test) -> bool:
    return bool(re.search(reason.id, test.id) and re.search(reason.said, test.said))
