"""The answers to what cannot be taken as a request."""

from __future__ import annotations

import msgspec
from httptools import HttpParserError

from mayflydb.http.messages import OVERLOADED, Response


class Refused(Exception):
    """A request cannot be taken; `response` says why, and the connection ends with it."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def _fixed_response(status: int, code: str, message: str) -> Response:
    body = msgspec.json.encode({"code": code, "message": message})
    return Response(status, body, ((b"content-type", b"application/json"),))


def refusal_of(error: HttpParserError) -> Response:
    """The answer to what the parser has stopped at; a name for the cause in the frame that called it would be a cycle."""
    cause = error.__context__
    return cause.response if isinstance(cause, Refused) else MALFORMED


def refuse_doubled(name: bytes) -> Response:
    return _fixed_response(400, "BadRequest", f"The request has more than one {name.decode().title()}.")


MALFORMED = _fixed_response(400, "BadRequest", "This is not a request of HTTP/1.1.")
HEAD_TOO_LARGE = _fixed_response(431, "RequestHeaderFieldsTooLarge", "The request's headers are larger than the limit.")
OVERLOADED_ANSWER = _fixed_response(503, "ServiceUnavailable", OVERLOADED)
FAILED = _fixed_response(500, "InternalServerError", "An internal error occurred.")
