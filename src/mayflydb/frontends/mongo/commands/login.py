"""Login and logout: SCRAM over saslStart and saslContinue, or within the first hello."""

from __future__ import annotations

import base64
from typing import Any, Final

from mayflydb.frontends.mongo.accounts import scram
from mayflydb.frontends.mongo.accounts.scram import Conversation, LoginRejected
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.state import Login
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import Document, type_name
from mayflydb.sockets.guesses import TooManyGuesses

CONVERSATION_ID: Final = 1
"""The number of each conversation. A connection has only one at a time."""

NONCE_BITS: Final = 192


def login_error() -> MqlError:
    """The error 18, the same for every reason: a client must not learn which users exist."""
    return MqlError(18, "Authentication failed.")


async def sasl_start(services: Services, call: Call) -> Document:
    """Begin a login and return the server's first message. A login in progress is abandoned."""
    call.check_fields(("mechanism", "payload", "options", "autoAuthorize"))
    call.connection.login = None
    try:
        return await _begin_login(services, call, call.body, call.database)
    except LoginRejected:
        raise login_error() from None


async def _begin_login(services: Services, call: Call, asked: Document, database: str) -> Document:
    mechanism, options = asked.get("mechanism"), asked.get("options", {})
    if mechanism not in scram.ITERATIONS:
        raise MqlError(334, f"Received authentication for mechanism {mechanism} which is unknown or not enabled")
    if not isinstance(options, dict):
        raise type_mismatch("saslStart.options", type_name(options), "object")
    first = scram.parse_client_first(_parse_payload(asked, "saslStart"))
    user = await services.accounts.find(database, first.user)
    credential = None if user is None else user.credentials.get(mechanism)
    # An unknown user gets an answer of the same form, and fails only at the proof.
    known = credential or scram.fake_credential(mechanism, f"{database}.{first.user}", services.options.secret)
    nonce = base64.b64encode(services.chance.getrandbits(NONCE_BITS).to_bytes(NONCE_BITS // 8, "big")).decode()
    conversation = Conversation(mechanism, first, known, nonce)
    skips_empty_exchange = bool(options.get("skipEmptyExchange"))
    name = f"{database}.{first.user}"
    call.connection.login = Login(conversation, None if credential is None else user, skips_empty_exchange, name)
    return {"conversationId": CONVERSATION_ID, "done": False, "payload": conversation.server_first}


async def authenticate(services: Services, call: Call) -> Document:
    """Refuse a login by certificate, the only mechanism without a conversation."""
    raise MqlError(334, f"Received authentication for mechanism {call.body.get('mechanism')} which is not supported")


async def sasl_continue(services: Services, call: Call) -> Document:
    """Check the client's proof and return the server's last message."""
    call.check_fields(("conversationId", "payload"))
    login, payload = call.connection.login, _parse_payload(call.body, call.name)
    if login is None:
        raise MqlError(17, "No SASL session state found")
    if call.body.get("conversationId") != CONVERSATION_ID:
        raise MqlError(17, "sasl: Mismatched conversation id")
    answer = b""
    if not login.proven:
        answer = await _check_proof(services, call, login, payload)
    elif payload:
        call.connection.login = None
        raise login_error()
    # Without the option, one more exchange with an empty payload ends the login: older drivers expect it.
    done = not answer or login.skips_empty_exchange
    if done:
        assert login.user is not None
        call.connection.login = None
        # The user may have been changed or dropped since the first message.
        user = await services.accounts.find(login.user.db, login.user.name)
        if user is None or user.credentials != login.user.credentials:
            raise login_error()
        await services.accounts.log_in(call.connection, user)
    return {"conversationId": CONVERSATION_ID, "done": done, "payload": answer}


async def _check_proof(services: Services, call: Call, login: Login, payload: bytes) -> bytes:
    answer = b""

    async def check() -> bool:
        nonlocal answer
        try:
            # An unknown user costs the same checks, so that time does not tell which users exist.
            answer = login.conversation.verify_proof(payload)
        except LoginRejected:
            return False
        return login.user is not None

    connection = call.connection
    # Taken away meanwhile: a client that does not wait for the answer must not try the conversation again.
    connection.login = None
    try:
        right = await services.guesses.attempt(connection.address, login.name, check)
    except TooManyGuesses:
        right = False
    if not right:
        raise login_error()
    login.proven = True
    connection.login = login
    return answer


def _parse_payload(asked: Document, name: str) -> bytes:
    payload: Any = asked.get("payload")
    if isinstance(payload, str):
        # Some drivers send the payload as text in base64.
        try:
            return base64.b64decode(payload, validate=True)
        except ValueError:
            raise login_error() from None
    if not isinstance(payload, bytes):
        raise type_mismatch(f"{name}.payload", type_name(payload), "binData")
    return bytes(payload)


async def add_login_fields(services: Services, call: Call, reply: Document) -> None:
    """Add to the reply of hello: the mechanisms of a user, and the first message of a speculative login."""
    mechanisms_of = call.body.get("saslSupportedMechs")
    if isinstance(mechanisms_of, str):
        database, _, name = mechanisms_of.partition(".")
        user = await services.accounts.find(database, name)
        if user is not None:
            reply["saslSupportedMechs"] = [mechanism for mechanism in scram.ITERATIONS if mechanism in user.credentials]
    speculative = call.body.get("speculativeAuthenticate")
    if isinstance(speculative, dict) and "saslStart" in speculative:
        source = speculative.get("db")
        try:
            if isinstance(source, str):
                reply["speculativeAuthenticate"] = await _begin_login(services, call, speculative, source)
        except (MqlError, LoginRejected):
            # The driver then sends a saslStart of its own, and gets the error there.
            call.connection.login = None


async def logout(services: Services, call: Call) -> Document:
    """Log the connection out."""
    call.check_fields(())
    services.accounts.log_out(call.connection)
    return {}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "authenticate": CommandEntry(authenticate, "open", help="Logs in by a certificate, which is refused."),
    "saslStart": CommandEntry(sasl_start, "open", help="Begins a login."),
    "saslContinue": CommandEntry(sasl_continue, "open", help="Goes on with a login."),
    "logout": CommandEntry(logout, "open", help="Ends what a login allowed."),
}
