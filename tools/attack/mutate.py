"""Damage bytes and JSON trees at random, from a seed."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

__all__ = ["damage", "damage_json", "damage_lines"]

_NUMBERS = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]
_VALUES: list[Any] = [
    None, True, -1, 0, 10**9, 10**30, 1e308, float("nan"), float("inf"), "", "x" * 5000, "../../x",
    "/dev/zero", "\0", "=1+1", [], {}, [[[]]], {"a": {"a": {}}}, "\ud800", [1] * 1000,
]  # fmt: skip


def damage(data: bytes, rng: random.Random) -> bytes:
    """Bytes with one to four changes: flipped, cut, doubled, moved, or extreme numbers."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not changed:
            break
        # Headers and footers say what the rest means: hit them more often.
        end = len(changed)
        near = rng.choice([end, min(end, 64), min(end, 512)])
        place = rng.randrange(near) if rng.random() < 0.7 else end - 1 - rng.randrange(near)
        _change(changed, place, rng)
    return bytes(changed)


def _change(data: bytearray, place: int, rng: random.Random) -> None:
    kind = rng.randrange(7)
    length = rng.choice([1, 2, 4, 8, 64])
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[place : place + length] = rng.randbytes(length)
    elif kind == 2:
        del data[place : place + length]
    elif kind == 3:
        del data[place:]
    elif kind == 4:
        data[place:place] = data[place : place + length] * rng.choice([1, 2, 50])
    elif kind == 5:
        data[place : place + length] = bytes(length)
    else:
        size = rng.choice([1, 2, 4, 8])
        number = rng.choice(_NUMBERS) & (256**size - 1)
        data[place : place + size] = number.to_bytes(size, rng.choice(["little", "big"]))


def damage_json(data: bytes, rng: random.Random) -> bytes:
    """A JSON document with one to three values replaced, removed or nested; at times its bytes."""
    if rng.random() < 0.2:
        return damage(data, rng)
    tree = json.loads(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        places = list(_places(tree))
        if not places:
            break
        node, key = rng.choice(places)
        if rng.random() < 0.25:
            del node[key]
        else:
            node[key] = copy.deepcopy(rng.choice(_VALUES))  # later changes may go into it
    text = json.dumps(tree)
    return (text if rng.random() < 0.98 else "[" * 100_000).encode()


def damage_lines(data: bytes, rng: random.Random) -> bytes:
    """A document of one JSON tree per line: lines damaged, dropped, doubled or swapped."""
    lines = data.splitlines(keepends=True)
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        return damage(data, rng)
    if kind == 1:
        lines.insert(place, lines[other])
    elif kind == 2:
        del lines[place]
    elif kind == 3:
        lines[place], lines[other] = lines[other], lines[place]
    else:
        lines[place] = damage_json(lines[place], rng) + b"\n"
    return b"".join(lines)


def _places(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)
