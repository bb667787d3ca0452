"""The table from kinds of failure to HTTP is total, and bodies are what clients parse."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from mayflydb.frontends.cosmos.errors import ANSWERS, answer_of, render
from mayflydb.http.messages import Response
from mayflydb.http.messages import render as line
from mayflydb.model import errors as kinds
from mayflydb.model.errors import MayflyError

KINDS = [kind for _, kind in inspect.getmembers(kinds, inspect.isclass) if issubclass(kind, MayflyError)]


def shown(error: MayflyError) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(render(error, "act", "/dbs/d", "mayfly/1").body)
    return body


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_answer(kind: type[MayflyError]) -> None:
    assert kind in ANSWERS
    rendered = render(kind("why"), "act", "/dbs/d", "mayfly/1")
    body = json.loads(rendered.body)
    assert rendered.status >= 400 and body["code"] and "why" in body["message"]
    assert body["message"].endswith("\r\nActivityId: act, Request URI: /dbs/d, mayfly/1")
    assert line(Response(rendered.status)).startswith(b"HTTP/1.1 %d " % rendered.status)


@pytest.mark.parametrize(
    ("error", "status", "code", "substatus"),
    [
        (kinds.BadRequest("x"), 400, "BadRequest", 0), (kinds.BadRequest("x", substatus=1001), 400, "BadRequest", 1001),
        (kinds.Unsupported("x"), 400, "BadRequest", 0), (kinds.BadQuery("x"), 400, "BadRequest", 0),
        (kinds.Unauthenticated("x"), 401, "Unauthorized", 0), (kinds.Forbidden("x"), 403, "Forbidden", 0),
        (kinds.NotFound("x"), 404, "NotFound", 0), (kinds.OwnerNotFound("x"), 404, "NotFound", 1003),
        (kinds.NotFound("x", substatus=1002), 404, "NotFound", 1002), (kinds.Conflict("x"), 409, "Conflict", 0),
        (kinds.PreconditionFailed("x"), 412, "PreconditionFailed", 0), (kinds.TooLarge("x"), 413, "RequestEntityTooLarge", 0),
        (kinds.Throttled("x", retry_after_ms=5), 429, "429", 3200), (kinds.WriteConflict("x"), 449, "RetryWith", 0),
        (kinds.Unavailable("x"), 503, "ServiceUnavailable", 0), (kinds.OutcomeUnknown("x"), 408, "RequestTimeout", 0),
        (kinds.OutOfSpace("x"), 403, "Forbidden", 1014),
        (kinds.TimedOut("x"), 408, "RequestTimeout", 0), (kinds.Corrupt("x"), 500, "InternalServerError", 0),
        (MayflyError("x", status=410, code_text="Gone", substatus=1002), 410, "Gone", 1002),
    ],
)  # fmt: skip
def test_answers_by_kind(error: MayflyError, status: int, code: str, substatus: int) -> None:
    rendered = render(error, "a", "/", "m")
    assert (rendered.status, rendered.substatus, json.loads(rendered.body)["code"]) == (status, substatus, code)


def test_subclass_follows_its_base() -> None:
    class Closer(kinds.OwnerNotFound):
        """A kind that the table does not name."""

    assert answer_of(Closer("x")).substatus == 1003


def test_errors_member() -> None:
    message = shown(kinds.NotFound('a "quoted" name'))["message"]
    head, tail = message.split("\r\n")
    assert json.loads(head.removeprefix("Message: ")) == {"Errors": ['a "quoted" name']} and tail.startswith(
        "ActivityId"
    )


@pytest.mark.parametrize("kind", [kinds.Unauthenticated, kinds.Forbidden])
def test_messages_that_are_plain_text(kind: type[MayflyError]) -> None:
    assert shown(kind("The text"))["message"].startswith("The text\r\n")


def test_query_error() -> None:
    message = shown(kinds.BadQuery("Syntax error", code="SC1001", start=7, end=11))["message"]
    assert json.loads(message.removeprefix("Message: ").split("\r\n")[0]) == {
        "errors": [
            {"severity": "Error", "location": {"start": 7, "end": 11}, "code": "SC1001", "message": "Syntax error"}
        ]
    }


def test_query_error_without_code() -> None:
    assert '{"Errors":["x"]}' in shown(kinds.BadQuery("x"))["message"]
    assert '"errors":[{"severity":"Error","code":"SC2101"' in shown(kinds.BadQuery("x", code="SC2101"))["message"]


def test_plan_is_needed() -> None:
    body = shown(kinds.BadRequest("cannot be served", substatus=1004, additional_error_info='{"a":1}'))
    assert body["additionalErrorInfo"] == '{"a":1}' and body["message"].startswith("cannot be served\r\n")


def test_retry_after() -> None:
    assert render(kinds.Throttled("x", retry_after_ms=12), "a", "/", "m").retry_after_ms == 12


def test_odd_text() -> None:
    assert "message" in shown(kinds.BadRequest("\ud800 \x00 é"))


def test_bad_detail() -> None:
    with pytest.raises(TypeError):
        answer_of(kinds.BadRequest("x", substatus="1001"))
