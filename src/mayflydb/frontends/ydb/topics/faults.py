"""Refusals of topics: statuses, and the codes of the issues by which clients of YDB tell them apart.

Source of codes and texts: `ydb/services/persqueue_v1` and `ydb/core/persqueue` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.faults import Fault, Status, fault

BAD_REQUEST_CODE: Final = 500003
COMMIT_TO_FUTURE_CODE: Final = 500013
UNKNOWN_TOPIC_CODE: Final = 500017
GAP_CODE: Final = 2011


class NodeStopping(Exception):
    """The server stops. The stream ends with gRPC's UNAVAILABLE, after which every client connects again."""


def bad_request(text: str) -> Fault:
    """The fault of a request that breaks the rules of its stream or method."""
    return fault(text, status="BAD_REQUEST", code=BAD_REQUEST_CODE)


def unsupported(what: str) -> Fault:
    """The refusal, by name, of what YDB has and Mayfly does not support."""
    return fault(f"{what} is not supported", status="UNSUPPORTED")


def missing_topic(path: str) -> Fault:
    """The fault of a topic that does not exist."""
    return fault(f"no path '{path}', Marker# PQ15", status="SCHEME_ERROR", code=UNKNOWN_TOPIC_CODE)


def not_a_topic(path: str) -> Fault:
    """The fault of another entry at the path of a topic."""
    return fault(f"item '{path}' is not a topic, Marker# PQ13", status="SCHEME_ERROR", code=UNKNOWN_TOPIC_CODE)


def missing_consumer(consumer: str, path: str, status: Status = "BAD_REQUEST") -> Fault:
    """The fault of a consumer that the topic does not have."""
    text = f"no read rule provided for consumer '{consumer}' in topic '{path}' in current cluster ''"
    return fault(text, status=status, code=BAD_REQUEST_CODE)


def missing_partition(partition: int, path: str) -> Fault:
    """The fault of a partition that the topic does not have."""
    return bad_request(f"no partition {partition} in topic {path}")


def double_commit(start: int, end: int) -> Fault:
    """The fault of a commit of what is committed, or waits to be. The spelling is YDB's."""
    return bad_request(
        f"offsets range [{start}, {end}) has already committed offsets, double committing is forbiden or incorrect"
    )


def commit_to_future(offset: int, end: int) -> Fault:
    """The fault of a commit behind the last message."""
    return fault(
        f"can't commit to future. Offset {offset}, EndOffset {end}", status="BAD_REQUEST", code=COMMIT_TO_FUTURE_CODE
    )
