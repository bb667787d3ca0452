"""The shapes of the admin API's answers about webhooks. `answers` has the others, and the rules for all."""

from __future__ import annotations

from mayflydb.admin.answers import Answer, Count, Target, Time
from mayflydb.expiry.rules import EventCause


class DeadLetterAnswer(Answer, frozen=True):
    """Events behind `after` and up to `upto` that were not accepted. `error`: of the last attempt, at `at`."""

    after: Count
    upto: Count
    events: Count
    error: str
    at: Time


class WebhookAnswer(Answer, frozen=True):
    """A webhook. `place`: the number of the last event that is done; `waiting`: events behind it, of any target.

    `sent`, `failed`: messages since the server started; `error`: of the last message, if it was not accepted.
    """

    name: str
    url: str
    target: Target | None
    causes: list[EventCause]
    place: Count
    waiting: Count
    sent: Count
    failed: Count
    error: str | None
    dead_letters: list[DeadLetterAnswer]


class WebhookList(Answer, frozen=True):
    """All webhooks. `last`: the number of the last event."""

    now: Time
    last: Count
    webhooks: list[WebhookAnswer]


class AddedWebhook(Answer, frozen=True):
    """A new webhook with its secret, which is not shown again."""

    now: Time
    name: str
    url: str
    secret: str


class RemovedWebhook(Answer, frozen=True):
    """The name of a webhook that is gone."""

    now: Time
    name: str


class TestedWebhook(Answer, frozen=True):
    """The receiver's answer to a message without events. `error`: empty if it was accepted."""

    now: Time
    name: str
    accepted: bool
    error: str


class RetriedWebhook(Answer, frozen=True):
    """The number of dead letters that were accepted, and of those that are left."""

    now: Time
    name: str
    sent: Count
    left: Count
