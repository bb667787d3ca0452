"""Descriptions of topics: from requests to stored bodies, with all checks. Pure.

Statements of YQL become the same requests (`from_yql`), so a rule about topics stands once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.topics.bodies import CODEC_NAMES, Consumer, TopicBody
from mayflydb.model.instant import HOUR, LAST_INSTANT, SECOND, Instant

DEFAULT_RETENTION: Final = 36 * HOUR // SECOND
"""Seconds for which the API keeps messages unless a request says otherwise: the limit of a database of YDB."""

MAX_RETENTION: Final = (1 << 31) - 1
DEFAULT_WRITE_SPEED: Final = 1 << 20
MAX_PARTITIONS: Final = 1000
MAX_CONSUMERS: Final = 3000
MAX_CODECS: Final = 100
MAX_NAME: Final = 2048
MAX_ATTRIBUTES: Final = 100
MAX_ATTRIBUTE_BYTES: Final = 10 << 10

_STRATEGIES: Final = {2: "scale_up", 3: "scale_up_and_down", 4: "paused"}

replace = msgspec.structs.replace


def new_body(request: Any, now: Instant, owner: str) -> TopicBody:
    """Return the body of a new topic, without its state, by a CreateTopicRequest. Invalid: the first violation."""
    _refuse(request.content_based_deduplication, "content_based_deduplication")
    _refuse(request.metrics_level, "metrics_level")
    _refuse_storage(request.retention_storage_mb)
    minimum, maximum = _partitions(request.partitioning_settings)
    speed = _not_negative(request.partition_write_speed_bytes_per_second, "partition_write_speed_bytes_per_second")
    body = TopicBody(
        0,
        partitions=minimum,
        max_partitions=maximum,
        retention=_retention(request) if request.HasField("retention_period") else DEFAULT_RETENTION,
        codecs=_codecs(request.supported_codecs),
        attributes=_attributes({}, request.attributes),
        write_speed=speed or DEFAULT_WRITE_SPEED,
        write_burst=_not_negative(request.partition_write_burst_bytes, "partition_write_burst_bytes"),
        metering=_metering(request.metering_mode),
        created=now,
        owner=owner,
    )
    return _check_codecs(replace(body, consumers=_add_consumers((), request.consumers, 1)))


def altered_body(body: TopicBody, request: Any, version: int) -> TopicBody:
    """Return a body changed by an AlterTopicRequest. `version`: that of the topic after it. Invalid: the first violation."""
    if body.table is not None and changes_more_than_consumers(request):
        raise Invalid("Only the consumers of a changefeed's topic can be altered")
    _refuse(request.set_content_based_deduplication, "content_based_deduplication")
    _refuse(request.set_metrics_level, "metrics_level")
    _refuse_storage(request.set_retention_storage_mb)
    if request.HasField("alter_partitioning_settings"):
        body = _repartition(body, request.alter_partitioning_settings)
    if request.HasField("set_retention_period"):
        body = replace(body, retention=_retention(request, "set_retention_period"))
    if request.HasField("set_supported_codecs"):
        body = replace(body, codecs=_codecs(request.set_supported_codecs))
    for name, field in (
        ("write_speed", "partition_write_speed_bytes_per_second"),
        ("write_burst", "partition_write_burst_bytes"),
    ):
        if request.HasField(f"set_{field}"):
            body = replace(body, **{name: _not_negative(getattr(request, f"set_{field}"), field)})
    if request.set_metering_mode:
        body = replace(body, metering=_metering(request.set_metering_mode))
    body = replace(body, attributes=_attributes(body.attributes, request.alter_attributes))
    return _check_codecs(replace(body, consumers=_altered_consumers(body.consumers, request, version)))


def changes_more_than_consumers(request: Any) -> bool:
    """Return whether an AlterTopicRequest changes anything but consumers."""
    own = {"operation_params", "path", "add_consumers", "drop_consumers", "alter_consumers"}
    # ydb-go-sdk always sends settings of partitions, and leaves them empty.
    if _sets_nothing(request.alter_partitioning_settings):
        own.add("alter_partitioning_settings")
    return any(field.name not in own for field, _ in request.ListFields())


def _sets_nothing(message: Any) -> bool:
    return all(field.message_type is not None and _sets_nothing(value) for field, value in message.ListFields())


def _altered_consumers(consumers: tuple[Consumer, ...], request: Any, version: int) -> tuple[Consumer, ...]:
    dropped = list(request.drop_consumers)
    for name in dropped:
        _find(consumers, name)
        consumers = tuple(each for each in consumers if each.name != name)
    for change in request.alter_consumers:
        before = _find(consumers, change.name)
        after = _alter_consumer(before, change)
        consumers = tuple(after if each is before else each for each in consumers)
    return _add_consumers(consumers, request.add_consumers, version)


def _find(consumers: Iterable[Consumer], name: str) -> Consumer:
    for each in consumers:
        if each.name == name:
            return each
    raise Invalid(f"no consumer '{name}' in the topic", "NOT_FOUND")


def _add_consumers(consumers: tuple[Consumer, ...], added: Sequence[Any], version: int) -> tuple[Consumer, ...]:
    if len(consumers) + len(added) > MAX_CONSUMERS:
        raise Invalid(f"consumers count cannot be more than {MAX_CONSUMERS}, provided {len(consumers) + len(added)}")
    known = {each.name for each in consumers}
    new: dict[str, Consumer] = {}
    for each in added:
        if each.name in known:
            raise Invalid(f"Duplicate consumer name {each.name}", "ALREADY_EXISTS")
        if each.name in new:
            raise Invalid(f"Duplicate consumer name {each.name}")
        new[each.name] = _consumer(each, version)
    return (*consumers, *new.values())


def _consumer(given: Any, version: int) -> Consumer:
    if not given.name:
        raise Invalid("consumer with empty name is forbidden")
    if len(given.name.encode()) > MAX_NAME:
        raise Invalid(f"consumer name is too long, limit {MAX_NAME}")
    _refuse(given.important, "An important consumer")
    _refuse(given.HasField("availability_period"), "availability_period of a consumer")
    return Consumer(
        given.name,
        _instant(given.read_from, "read_from"),
        _codecs(given.supported_codecs),
        _attributes({}, given.attributes),
        version,
    )


def _alter_consumer(before: Consumer, change: Any) -> Consumer:
    _refuse(change.set_important, "An important consumer")
    _refuse(change.HasField("set_availability_period"), "availability_period of a consumer")
    after = replace(before, attributes=_attributes(before.attributes, change.alter_attributes))
    if change.HasField("set_read_from"):
        after = replace(after, read_from=_instant(change.set_read_from, "read_from"))
    if change.HasField("set_supported_codecs"):
        after = replace(after, codecs=_codecs(change.set_supported_codecs))
    return after


def _check_codecs(body: TopicBody) -> TopicBody:
    """Return a body whose parts agree."""
    for consumer in body.consumers:
        missing = [each for each in body.codecs if each not in consumer.codecs]
        if consumer.codecs and missing:
            text = f"consumer '{consumer.name}' does not support the codec {codec_name(missing[0])} of the topic"
            raise Invalid(text)
    return body


def _partitions(given: Any) -> tuple[int, int]:
    _refuse_strategy(given.auto_partitioning_settings.strategy)
    minimum = _not_negative(given.min_active_partitions, "min_active_partitions") or 1
    maximum = _not_negative(given.max_active_partitions, "max_active_partitions")
    _not_negative(given.partition_count_limit, "partition_count_limit")
    return _check_partitions(minimum, maximum)


def _repartition(body: TopicBody, given: Any) -> TopicBody:
    _refuse_strategy(given.alter_auto_partitioning_settings.set_strategy)
    minimum, maximum = body.partitions, body.max_partitions
    if given.HasField("set_min_active_partitions"):
        minimum = _not_negative(given.set_min_active_partitions, "min_active_partitions") or 1
    if given.HasField("set_max_active_partitions"):
        maximum = _not_negative(given.set_max_active_partitions, "max_active_partitions")
    elif maximum < minimum:
        # The limit of a topic that does not split by itself has no effect, so it does not stand in the way of growth.
        maximum = 0
    _not_negative(given.set_partition_count_limit, "partition_count_limit")
    if minimum < body.partitions:
        raise Invalid(f"partitions count can only grow: {body.partitions} now, {minimum} requested")
    minimum, maximum = _check_partitions(minimum, maximum)
    return replace(body, partitions=minimum, max_partitions=maximum)


def _check_partitions(minimum: int, maximum: int) -> tuple[int, int]:
    if minimum > MAX_PARTITIONS:
        raise Invalid(f"partitions count cannot be more than {MAX_PARTITIONS}, provided {minimum}")
    if maximum and maximum < minimum:
        raise Invalid(
            f"max_active_partitions must be greater than or equal to min_active_partitions, provided {maximum} and {minimum}"
        )
    return minimum, maximum


def _refuse_strategy(strategy: int) -> None:
    if strategy > 1:
        raise Invalid(
            f"Auto partitioning strategy {_STRATEGIES.get(strategy, strategy)} is not supported", "UNSUPPORTED"
        )


def _retention(request: Any, field: str = "retention_period") -> int:
    duration = getattr(request, field)
    # Rounded up: nothing leaves a topic earlier than it was told.
    seconds = int(duration.seconds + (duration.nanos > 0))
    if seconds <= 0:
        raise Invalid(f"retention_period must be positive, provided {seconds} seconds")
    if seconds > MAX_RETENTION:
        raise Invalid(f"retention_period must be at most {MAX_RETENTION} seconds, provided {seconds}")
    return seconds


def _refuse_storage(megabytes: int) -> None:
    _not_negative(megabytes, "retention_storage_mb")
    _refuse(megabytes, "retention_storage_mb")


def _refuse(given: object, what: str) -> None:
    if given:
        raise Invalid(f"{what} is not supported", "UNSUPPORTED")


def _not_negative(number: int, what: str) -> int:
    if number < 0:
        raise Invalid(f"{what} can't be negative, provided {number}")
    return number


def _metering(mode: int) -> Any:
    if mode not in (0, 1, 2):
        raise Invalid(f"Unknown metering mode {mode}")
    return mode


def _codecs(given: Any) -> tuple[int, ...]:
    codecs = tuple(dict.fromkeys(given.codecs))
    if len(given.codecs) > MAX_CODECS:
        raise Invalid(f"supported_codecs count cannot be more than {MAX_CODECS}, provided {len(given.codecs)}")
    for codec in codecs:
        check_codec(codec)
    return codecs


def check_codec(codec: int) -> None:
    """Check the number of a codec. Invalid: it stands for none."""
    if codec not in CODEC_NAMES and not 10_000 <= codec < 20_000:
        raise Invalid(f"Unknown codec with id {codec}")


def codec_name(codec: int) -> str:
    """Return the name of a codec."""
    return CODEC_NAMES.get(codec, str(codec))


def _attributes(before: dict[str, str], given: Any) -> dict[str, str]:
    """Return attributes with changes applied. An empty value drops one."""
    after = dict(before)
    for name, value in given.items():
        # YDB's own attributes begin so, and each has an effect there.
        if not name or name.startswith("_"):
            raise Invalid(f"Attribute {name} is not supported")
        after.pop(name, None)
        if value:
            after[name] = value
    size = sum(len(name.encode()) + len(value.encode()) for name, value in after.items())
    if len(after) > MAX_ATTRIBUTES or size > MAX_ATTRIBUTE_BYTES:
        raise Invalid(f"attributes cannot be more than {MAX_ATTRIBUTES}, nor longer than {MAX_ATTRIBUTE_BYTES} bytes")
    return after


def _instant(timestamp: Any, what: str) -> Instant:
    instant: int = timestamp.seconds * SECOND + timestamp.nanos // 1000
    if not 0 <= instant <= LAST_INSTANT:
        raise Invalid(f"{what} is out of range")
    return instant
