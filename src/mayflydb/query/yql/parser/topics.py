"""CREATE, ALTER and DROP of topics, with their consumers."""

from __future__ import annotations

from mayflydb.query.yql.definitions import (
    AddConsumer,
    AlterConsumer,
    AlterTopic,
    ConsumerClause,
    CreateTopic,
    DropConsumer,
    DropTopic,
    ResetSettings,
    SetSettings,
    Setting,
    TopicAction,
)
from mayflydb.query.yql.parser.permissions import PermissionStatements
from mayflydb.query.yql.syntax import At


class TopicStatements(PermissionStatements):
    def create_topic(self, at: At) -> CreateTopic:
        """Parse the rest of `CREATE TOPIC`."""
        if_not_exists = self.if_not_exists()
        name = self.object_path()
        consumers: tuple[ConsumerClause, ...] = ()
        if self.kind == "(":
            consumers = self.parse_in_parentheses(self._consumer)
        return CreateTopic(at, name, consumers, self.with_settings(), if_not_exists)

    def _consumer(self) -> ConsumerClause:
        at = self.at()
        self.expect("CONSUMER")
        return ConsumerClause(at, self.name(), self.with_settings())

    def alter_topic(self, at: At) -> AlterTopic:
        """Parse the rest of `ALTER TOPIC`."""
        name = self.object_path()
        return AlterTopic(at, name, self.parse_list(self._topic_action, None))

    def _topic_action(self) -> TopicAction:
        at = self.at()
        if self.accept("ADD"):
            return AddConsumer(at, self._consumer())
        if self.accept("DROP"):
            self.expect("CONSUMER")
            return DropConsumer(at, self.name())
        if self.accept("ALTER"):
            self.expect("CONSUMER")
            name = self.name()
            settings, reset = self._set_or_reset()
            return AlterConsumer(at, name, settings, reset)
        settings, reset = self._set_or_reset("ADD", "ALTER", "DROP")
        return ResetSettings(at, reset) if reset else SetSettings(at, settings)

    def _set_or_reset(self, *others: str) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
        if self.accept("SET"):
            return self.settings_list(), ()
        if self.accept("RESET"):
            return (), self.parse_in_parentheses(self.name)
        return self.fail(*others, "RESET", "SET")

    def drop_topic(self, at: At) -> DropTopic:
        """Parse the rest of `DROP TOPIC`."""
        if_exists = self.if_exists()
        return DropTopic(at, self.object_path(), if_exists)
