"""HTTP headers of the REST protocol: those of requests, honoured, refused or ignored, and those of answers.

One call adds a header to the table; `tools/headers.py` writes `docs/cosmos-headers.md` from it. Names are in lower case, as in
requests. https://learn.microsoft.com/rest/api/cosmos-db/common-cosmosdb-rest-request-headers
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from mayflydb.model.errors import Unsupported


class Treatment(StrEnum):
    """The treatment of a header of a request."""

    HONOURED = "honoured"
    REFUSED = "refused"
    IGNORED = "ignored"


class Header(msgspec.Struct, frozen=True):
    """A row of the table.

    `treatment`: None for a header that only answers have. `note`: its meaning, or why ignoring it changes nothing.
    """

    name: bytes
    treatment: Treatment | None
    note: str


TABLE: Final[list[Header]] = []


def _honour(name: bytes, note: str) -> bytes:
    """Add a header that is honoured."""
    TABLE.append(Header(name, Treatment.HONOURED, note))
    return name


def _refuse(name: bytes, note: str) -> bytes:
    """Add a header of which some values are refused by name."""
    TABLE.append(Header(name, Treatment.REFUSED, note))
    return name


def _ignore(name: bytes, note: str) -> None:
    """Add a header that is ignored."""
    TABLE.append(Header(name, Treatment.IGNORED, note))


def _answer(name: bytes, note: str) -> bytes:
    """Add a header that only answers have."""
    TABLE.append(Header(name, None, note))
    return name


# --- honoured ------------------------------------------------------------------------------------------------------

A_IM: Final = _honour(
    b"a-im", "`Incremental Feed` asks for the change feed, `Full-Fidelity Feed` for all versions and deletes."
)
AUTHORIZATION: Final = _honour(
    b"authorization", "Master key, resource token or, as the emulator takes it, a token of Microsoft Entra ID."
)
CONTENT_LENGTH: Final = _honour(
    b"content-length", "Bytes of the body; one that is too large is refused before it is read."
)
CONTENT_TYPE: Final = _honour(
    b"content-type", "`application/query+json` makes a POST a query. Answers are `application/json`."
)
DATE: Final = _honour(b"date", "Part of the signature where `x-ms-date` is missing.")
HOST: Final = _honour(b"host", "Addresses in answers begin with it.")
IF_MATCH: Final = _honour(b"if-match", "The version that a write expects.")
IF_MODIFIED_SINCE: Final = _honour(b"if-modified-since", "Where a change feed starts.")
IF_NONE_MATCH: Final = _honour(
    b"if-none-match", "Answers 304 for a version that the client has; the position in a change feed."
)
PREFER: Final = _honour(b"prefer", "`return=minimal` leaves the item out of a write's answer.")
AS_OF: Final = _honour(
    b"x-mayfly-as-of",
    "An instant in RFC 3339: items are read and queried as they were or will be left then. Mayfly's own.",
)
TRACEPARENT: Final = _honour(b"traceparent", "The span of the request belongs to this trace, where traces are on.")
ACTIVITY_ID: Final = _honour(b"x-ms-activity-id", "Repeated in the answer; made up where it is missing.")
VERSION: Final = _honour(
    b"x-ms-version", "Before 2018-12-31, containers need no partition key; all other versions are answered alike."
)
CONSISTENCY_LEVEL: Final = _honour(
    b"x-ms-consistency-level",
    "Levels up to the account's (`--consistency`), which all reads reach; stronger ones are refused, as by the service.",
)
CONTINUATION: Final = _honour(
    b"x-ms-continuation", "Where a feed or a query goes on; in an answer, where its next page begins."
)
BATCH_ATOMIC: Final = _honour(b"x-ms-cosmos-batch-atomic", "All operations of a batch or none.")
BATCH_CONTINUE_ON_ERROR: Final = _honour(
    b"x-ms-cosmos-batch-continue-on-error", "`False` ends a batch that is not atomic at its first failure."
)
CHANGE_FEED_WIRE_FORMAT: Final = _honour(
    b"x-ms-cosmos-changefeed-wire-format-version", "Form of all versions and deletes."
)
INTENDED_RID: Final = _honour(
    b"x-ms-cosmos-intended-collection-rid", "Refuses a request that means a container of the same name before this one."
)
IS_BATCH: Final = _honour(b"x-ms-cosmos-is-batch-request", "Makes a POST a batch.")
IS_QUERY_PLAN: Final = _honour(b"x-ms-cosmos-is-query-plan-request", "Makes a POST a request for a query's plan.")
MIGRATE_TO_AUTOPILOT: Final = _honour(
    b"x-ms-cosmos-migrate-offer-to-autopilot", "Changes manual throughput to autoscale."
)
MIGRATE_TO_MANUAL: Final = _honour(
    b"x-ms-cosmos-migrate-offer-to-manual-throughput", "Changes autoscale throughput to manual."
)
OFFER_AUTOPILOT: Final = _honour(
    b"x-ms-cosmos-offer-autopilot-settings", "Autoscale throughput of a new database or container."
)
POPULATE_INDEX_METRICS: Final = _honour(b"x-ms-cosmos-populateindexmetrics", "Asks which indexes a query used.")
POPULATE_INDEX_METRICS_V2: Final = _honour(b"x-ms-cosmos-populateindexmetrics-v2", "The same in its second form.")
SUPPORTED_FORMATS: Final = _honour(
    b"x-ms-cosmos-supported-serialization-formats",
    "`CosmosBinary` without `JsonText`: items of up to 16 KiB are answered in binary JSON. All else is text, which clients tell"
    " by its first byte.",
)
SUPPORTED_QUERY_FEATURES: Final = _honour(
    b"x-ms-cosmos-supported-query-features", "What a query's plan may ask of the client."
)
MS_DATE: Final = _honour(b"x-ms-date", "Part of the signature.")
EXPIRY_SECONDS: Final = _honour(b"x-ms-documentdb-expiry-seconds", "How long a resource token is valid.")
IS_UPSERT: Final = _honour(b"x-ms-documentdb-is-upsert", "Makes a POST an upsert.")
IS_QUERY: Final = _honour(b"x-ms-documentdb-isquery", "Makes a POST a query.")
PARTITION_KEY: Final = _honour(b"x-ms-documentdb-partitionkey", "Value of the partition key, as a JSON array.")
PARTITION_KEY_RANGE_ID: Final = _honour(b"x-ms-documentdb-partitionkeyrangeid", "The range that a feed or query reads.")
POPULATE_PARTITION_STATISTICS: Final = _honour(
    b"x-ms-documentdb-populatepartitionstatistics", "Asks for counts of partitions with a container."
)
POPULATE_QUERY_METRICS: Final = _honour(b"x-ms-documentdb-populatequerymetrics", "Asks for a query's counts and times.")
POPULATE_QUOTA_INFO: Final = _honour(b"x-ms-documentdb-populatequotainfo", "Asks for a container's quota and usage.")
POST_TRIGGER_INCLUDE: Final = _honour(
    b"x-ms-documentdb-post-trigger-include",
    "Triggers to run after a write; refused by name where an operation runs none.",
)
PRE_TRIGGER_INCLUDE: Final = _honour(
    b"x-ms-documentdb-pre-trigger-include",
    "Triggers to run before a write; refused by name where an operation runs none.",
)
ENABLE_CROSS_PARTITION: Final = _honour(
    b"x-ms-documentdb-query-enablecrosspartition", "Permits a query over more than one partition."
)
COLLECTION_RID: Final = _honour(
    b"x-ms-documentdb-collection-rid",
    "In direct mode, the container that the client took the name for; 410 after it was created again.",
)
REPLICA_PATH: Final = _honour(
    b"x-ms-replica-path", "In direct mode, the replica that the client addresses; 410 after its range was split."
)
SCRIPT_ENABLE_LOGGING: Final = _honour(
    b"x-ms-documentdb-script-enable-logging", "Asks for the console output of a script."
)
END_EPK: Final = _honour(b"x-ms-end-epk", "Upper bound of a range of hashed partition keys.")
MAX_ITEM_COUNT: Final = _honour(b"x-ms-max-item-count", "Most items of a page.")
OFFER_THROUGHPUT: Final = _honour(b"x-ms-offer-throughput", "Manual throughput of a new database or container.")
SESSION_TOKEN: Final = _honour(
    b"x-ms-session-token", "The least version that a read shows; in an answer, the version reached."
)
START_EPK: Final = _honour(b"x-ms-start-epk", "Lower bound of a range of hashed partition keys.")

# --- refused -------------------------------------------------------------------------------------------------------

INDEXING_DIRECTIVE: Final = _refuse(
    b"x-ms-indexing-directive", "`Exclude`: an item that queries cannot find. `Default` and `Include` are honoured."
)
OFFER_TYPE: Final = _refuse(b"x-ms-offer-type", "`S1`, `S2` and `S3`: levels of throughput before request units.")

CONTENT_FORMAT: Final = _refuse(
    b"x-ms-documentdb-content-serialization-format",
    "`HybridRow`: rows of items in another form. With `JsonText` and `CosmosBinary` text is answered, which clients tell by its"
    " first byte.",
)


def check_indexing_directive(directive: str) -> None:
    """Raise Unsupported for a directive that is not honoured. Operations of a batch have it as well."""
    if directive.lower() not in ("default", "include"):
        raise Unsupported(f"The indexing directive '{directive[:100]}' is not supported by Mayfly.")


# --- ignored -------------------------------------------------------------------------------------------------------

_ignore(b"accept", "Every answer is JSON, which all clients take.")
_ignore(b"accept-encoding", "Answers are not compressed, which this header permits and does not demand.")
_ignore(b"cache-control", "Nothing between client and store keeps answers.")
_ignore(b"user-agent", "Names the client.")
_ignore(b"x-ms-client-id", "Names the client.")
_ignore(b"x-ms-useragent", "Names the client.")
_ignore(b"x-ms-cosmos-allow-tentative-writes", "Permits writes in any region of an account; there is one.")
_ignore(b"x-ms-cosmos-correlated-activityid", "Joins requests of one query in a trace.")
_ignore(
    b"x-ms-cosmos-batch-ordered", "Operations of a batch that is atomic, or ends at a failure, are in order anyway."
)
_ignore(
    b"x-ms-cosmos-is-client-encrypted",
    "Encrypted properties are values like others; the intended rid detects a container that was created again.",
)
_ignore(b"x-ms-cosmos-populatequeryadvice", "Asks for advice, which a service may have none of.")
_ignore(
    b"x-ms-cosmos-priority-level",
    "Which requests are throttled first where priorities are enabled for an account, which they are not.",
)
_ignore(b"x-ms-cosmos-query-version", "Version of query plans that the client understands; one form is answered.")
_ignore(b"x-ms-cosmos-sdk-supportedcapabilities", "Further abilities of the client; none of them is needed.")
_ignore(
    b"x-ms-cosmos-throughput-bucket", "Shares throughput by buckets where an account defines them; none are defined."
)
_ignore(b"x-ms-dedicatedgateway-bypass-cache", "There is no cache in between, so every read bypasses it.")
_ignore(b"x-ms-dedicatedgateway-max-age", "How old a cached answer may be; every answer is fresh.")
_ignore(
    b"x-ms-documentdb-disable-ru-per-minute-usage", "Request units per minute are no longer offered by the service."
)
_ignore(
    b"x-ms-offer-is-ru-per-minute-throughput-enabled", "Request units per minute are no longer offered by the service."
)
_ignore(b"x-ms-documentdb-post-trigger-exclude", "Only triggers that a request includes are run.")
_ignore(b"x-ms-documentdb-pre-trigger-exclude", "Only triggers that a request includes are run.")
_ignore(b"x-ms-documentdb-query-emit-traces", "Asks for a trace inside of the service.")
_ignore(b"x-ms-documentdb-query-enable-scan", "Permits scans, which every query may make here.")
_ignore(b"x-ms-documentdb-query-iscontinuationexpected", "Tells that the client may take pages; it always may.")
_ignore(b"x-ms-documentdb-query-parallelizecrosspartitionquery", "How the client itself runs a query.")
_ignore(
    b"x-ms-documentdb-responsecontinuationtokenlimitinkb",
    "Limits tokens; those of keys up to 600 bytes stay below 1 KB, the least limit that clients ask for.",
)
_ignore(b"x-ms-read-key-type", "Says that ranges are hashed keys, as their own headers say too.")
_ignore(b"x-ms-thinclient-proxy-operation-type", "Describes the request to a proxy; there is none.")
_ignore(b"x-ms-thinclient-proxy-resource-type", "Describes the request to a proxy; there is none.")
_ignore(b"x-ms-throttle-retry-count", "Counts the client's own attempts.")
_ignore(b"x-ms-throttle-retry-wait-time-ms", "Counts the client's own waiting.")

# --- of answers ----------------------------------------------------------------------------------------------------

CONTENT_LOCATION: Final = _answer(b"content-location", "Address of the resource.")
ETAG: Final = _answer(b"etag", "Version of the resource; position in a change feed.")
LSN: Final = _answer(b"lsn", "Version that the container has reached.")
ALT_CONTENT_PATH: Final = _answer(b"x-ms-alt-content-path", "Owner of the resource, by names.")
CONTENT_PATH: Final = _answer(b"x-ms-content-path", "Rid of the owner.")
INDEX_UTILIZATION: Final = _answer(b"x-ms-cosmos-index-utilization", "Indexes that a query used.")
MIN_THROUGHPUT: Final = _answer(b"x-ms-cosmos-min-throughput", "Least throughput of an offer.")
QUERY_EXECUTION_INFO: Final = _answer(
    b"x-ms-cosmos-query-execution-info", "Whether rows with equal keys come in the order of the range."
)
INDEX_TRANSFORMATION_PROGRESS: Final = _answer(
    b"x-ms-documentdb-collection-index-transformation-progress", "Always 100."
)
LAZY_INDEXING_PROGRESS: Final = _answer(b"x-ms-documentdb-collection-lazy-indexing-progress", "Always 100.")
QUERY_METRICS: Final = _answer(b"x-ms-documentdb-query-metrics", "Counts and times of a query.")
SCRIPT_LOG: Final = _answer(b"x-ms-documentdb-script-log-results", "Lines that a script wrote to the console.")
GATEWAY_VERSION: Final = _answer(b"x-ms-gatewayversion", "Version of the protocol.")
ITEM_COUNT: Final = _answer(b"x-ms-item-count", "Items of a page.")
ITEM_LSN: Final = _answer(b"x-ms-item-lsn", "Version of an item.")
OFFER_REPLACE_PENDING: Final = _answer(
    b"x-ms-offer-replace-pending", "Always false: changes of throughput take effect at once."
)
REQUEST_CHARGE: Final = _answer(b"x-ms-request-charge", "Price in request units.")
RESOURCE_QUOTA: Final = _answer(b"x-ms-resource-quota", "Limits of a container.")
RESOURCE_USAGE: Final = _answer(b"x-ms-resource-usage", "Usage of a container.")
RETRY_AFTER_MS: Final = _answer(b"x-ms-retry-after-ms", "When a throttled request may be repeated.")
SERVICE_VERSION: Final = _answer(b"x-ms-serviceversion", "Name and version of the server.")
SUBSTATUS: Final = _answer(b"x-ms-substatus", "Reason of an error, by number.")
