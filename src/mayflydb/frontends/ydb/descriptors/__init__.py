"""YDB's protobuf messages, in a descriptor pool of their own.

In the default pool they would collide with those of the vendor's client.

`api.desc.gz` is the compressed FileDescriptorSet of https://github.com/ydb-platform/ydb-api-protos (commit 47ddff5,
Apache License 2.0, Copyright 2021 YANDEX LLC and contributors), as `protoc --include_imports --descriptor_set_out` writes it.
`tools/ydb-descriptors.sh` builds it again.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool


@cache
def pool() -> DescriptorPool:
    """Return the pool with all files of the set, loaded once."""
    loaded = DescriptorPool()
    for each in _files(gzip.decompress(files(__name__).joinpath("api.desc.gz").read_bytes())):
        loaded.AddSerializedFile(each)
    return loaded


def _files(described: bytes) -> Iterator[bytes]:
    """Yield the FileDescriptorProtos of a FileDescriptorSet, its only field.

    Importing the set's own class would take long.
    """
    # One field, again and again:  0A | length as a varint | FileDescriptorProto.
    place = 0
    while place < len(described):
        place += 1
        size = shift = 0
        while described[place] > 127:
            size |= (described[place] & 127) << shift
            shift += 7
            place += 1
        size |= described[place] << shift
        yield described[place + 1 : place + 1 + size]
        place += 1 + size


@cache
def message(name: str) -> Any:
    """Return the class of a message by its full name, `Ydb.Table.CreateTableRequest`. KeyError for an unknown name."""
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(name))


def service(name: str) -> ServiceDescriptor:
    """Return the descriptor of a service, such as `Ydb.Table.V1.TableService`."""
    found: ServiceDescriptor = pool().FindServiceByName(name)
    return found


def enum_number(name: str, value: str) -> int:
    """Return the number of an enumeration's value: ("Ydb.StatusIds.StatusCode", "SUCCESS") is 400000."""
    number: int = pool().FindEnumTypeByName(name).values_by_name[value].number
    return number


def enum_name(name: str, number: int) -> str:
    """Return the name of an enumeration's value; the number as text if it has no name."""
    found = pool().FindEnumTypeByName(name).values_by_number.get(number)
    return str(number) if found is None else str(found.name)
