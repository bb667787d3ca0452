"""The module Ip. An address is a String of 4 or 16 bytes, a subnet the two of its first and last address, one behind the other.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/ip
"""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final

from mayflydb.query.yql.expression import Builder
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.signatures import build_module

_EMBEDDED: Final = b"\x00" * 10 + b"\xff\xff"
"""The first bytes of an IPv4 address in an IPv6 address."""


def _from_string(text: bytes) -> bytes | None:
    try:
        return ip_address(text.decode("ascii", "replace")).packed
    except ValueError:
        return None


def _is_address(value: bytes) -> bool:
    return len(value) in (4, 16)


def _require_address(value: bytes) -> bytes:
    if not _is_address(value):
        raise fault("Incorrect size of input, expected 4 or 16, got " + str(len(value)))
    return value


def _to_string(value: bytes) -> bytes | None:
    if not _is_address(value):
        return None
    # As inet_ntop does, an embedded address keeps its dots.
    if _is_embedded(value):
        return f"::ffff:{IPv4Address(value[12:])}".encode()
    return str(ip_address(value)).encode()


def _is_embedded(value: bytes) -> bool:
    return len(value) == 16 and value.startswith(_EMBEDDED)


def _to_ipv6(value: bytes) -> bytes:
    return _EMBEDDED + value if len(value) == 4 else _require_address(value)


def _subnet(value: bytes, size: int | None = None) -> bytes:
    """The first address of the subnet of an address."""
    bits = 8 * len(_require_address(value))
    size = (24 if bits == 32 else 64) if size is None else size
    if size > bits:
        raise fault(f"Subnet size {size} is greater than {bits}")
    return _and(value, ((1 << size) - 1) << (bits - size))


def _and(value: bytes, mask: int) -> bytes:
    return (int.from_bytes(value, "big") & mask).to_bytes(len(value), "big")


def _subnet_by_mask(value: bytes, mask: bytes) -> bytes:
    if len(_require_address(value)) != len(mask):
        raise fault("Different sizes of address and mask")
    return _and(value, int.from_bytes(mask, "big"))


def _subnet_from_string(text: bytes) -> bytes | None:
    try:
        found = ip_network(text.decode("ascii", "replace"), strict=False)
    except ValueError:
        return None
    return found.network_address.packed + found.broadcast_address.packed


def _subnet_to_string(value: bytes) -> bytes | None:
    bounds = _bounds(value)
    if bounds is None:
        return None
    first, last = bounds
    size = 8 * len(first) - (int.from_bytes(first, "big") ^ int.from_bytes(last, "big")).bit_length()
    return f"{ip_address(first)}/{size}".encode()


def _bounds(value: bytes) -> tuple[bytes, bytes] | None:
    """The first and the last address of a subnet; None for other bytes."""
    half = len(value) // 2
    return (value[:half], value[half:]) if len(value) in (8, 32) else None


def _matches(subnet: bytes, value: bytes) -> bool:
    """True if an address, or a whole subnet, lies in the subnet."""
    bounds = _bounds(subnet)
    if bounds is None:
        raise fault(f"Incorrect size of input, expected 8 or 32, got {len(subnet)}")
    # 16 bytes are an IPv6 address, and 8 bytes a subnet of IPv4.
    first, last = (value, value) if _is_address(value) else _bounds(value) or (value, value)
    if len(first) not in (4, 16):
        raise fault(f"Incorrect size of input, got {len(value)}")
    if len(first) != len(bounds[0]):
        return False
    return bounds[0] <= first and last <= bounds[1]


def _to_uint32(value: bytes) -> int | None:
    return int(IPv4Address(value)) if len(value) == 4 else None


BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "FromString": ("(String) -> String?", _from_string),
        "SubnetFromString": ("(String) -> String?", _subnet_from_string),
        "Ipv4FromUint32": ("(Uint32) -> String", lambda number: IPv4Address(number).packed),
        "ToString": ("(String) -> String?", _to_string),
        "SubnetToString": ("(String) -> String?", _subnet_to_string),
        "Ipv4ToUint32": ("(String) -> Uint32?", _to_uint32),
        "IsIPv4": ("(String?) -> Bool", lambda value: value is not None and len(value) == 4),
        "IsIPv6": ("(String?) -> Bool", lambda value: value is not None and len(value) == 16),
        "IsEmbeddedIPv4": ("(String?) -> Bool", lambda value: value is not None and _is_embedded(value)),
        "ConvertToIPv6": ("(String) -> String", _to_ipv6),
        "GetSubnet": ("(String, [Uint8?]) -> String", _subnet),
        "GetSubnetByMask": ("(String, String) -> String", _subnet_by_mask),
        "SubnetMatch": ("(String, String) -> Bool", _matches),
    }
)
