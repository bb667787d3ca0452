"""Inputs that are nearly right: examples with bits, bytes and pieces changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from struct import pack_into

INTERESTING = (0, 1, 4, 5, 16, 127, 128, 255, 256, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
"""Lengths and counts at which parsers go wrong."""


class Mutator:
    """Changes examples at random. `words`: pieces that are put in; `binary`: numbers of 4 bytes are changed too."""

    def __init__(self, examples: Sequence[bytes], words: Sequence[bytes], binary: bool, chance: random.Random) -> None:
        self._examples = examples
        self._words = words
        self._binary = binary
        self._chance = chance

    def inputs(self, count: int) -> Iterator[bytes]:
        """So many inputs."""
        for _ in range(count):
            data = bytearray(self._chance.choice(self._examples))
            for _ in range(self._chance.choice((1, 1, 1, 2, 3, 8))):
                self._change(data)
            yield bytes(data)

    def _change(self, data: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(data) + 1)
        until = min(len(data), at + chance.choice((1, 1, 2, 4, 16, 64)))
        match chance.randrange(8 if self._binary else 7):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:until]
            case 2:
                data[at:at] = data[at:until]
            case 3:
                data[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
            case 4:
                data[at:at] = chance.choice(self._words)
            case 5:
                other = chance.choice(self._examples)
                begin = chance.randrange(len(other) + 1)
                data[at:until] = other[begin : begin + chance.choice((1, 4, 16, 64))]
            case 6:
                del data[at:]
            case 7 if len(data) >= 4:
                pack_into("<I", data, chance.randrange(len(data) - 3), chance.choice(INTERESTING))
            case _:
                pass
