"""Changes to inputs: of bytes, and of JSON that stays JSON."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

#: Values that nobody expects where they are put.
ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 255, 2**31, 2**32 - 1, 2**63 - 1, 2**64, 10**30, 0.5, -1.5, 1e308, -0.0),
    *("", "x", "\x00", "\ud800", "../x", "/etc/passwd", "7" * 300, [], [[]], [None], {}, {"": 1}, {"a": {}}),
]
_NUMBERS = (0, 1, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return an input with bytes flipped, cut out, put in, repeated or overwritten by a number."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(content) + 1)
        way = rng.randrange(7)
        if way == 0:
            del content[at:]
        elif way == 1:
            del content[at : at + rng.randrange(1, 17)]
        elif way == 2:
            content[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif way == 3:
            content[at:at] = content[max(0, at - rng.randrange(1, 33)) : at]
        elif way == 4:
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice(_NUMBERS) & (1 << 8 * width) - 1
            content[at : at + width] = number.to_bytes(width, "little")
        elif at < len(content):
            content[at] = rng.randrange(256) if way == 5 else content[at] ^ 1 << rng.randrange(8)
    return bytes(content)


def changed_json(value: Any, rng: random.Random) -> Any:
    """Return JSON with some values replaced, removed, repeated or exchanged."""
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(root))
        parent, key = rng.choice(places)
        way = rng.randrange(6)
        if way == 0 and parent is not root:
            del parent[key]
        elif way == 1 and isinstance(parent, list) and parent is not root:
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
        elif way == 2 and isinstance(parent, dict):
            parent[rng.choice([*parent, "x", ""])] = parent.pop(key)
        elif way == 3:
            other, at = rng.choice(places)
            if len(json.dumps(parent[key])) < 2000:
                other[at] = copy.deepcopy(parent[key])
        elif way == 4 and isinstance(parent[key], int):
            parent[key] += rng.choice((-1, 1, 7, 256))
        elif way == 4 and isinstance(parent[key], str):
            parent[key] = changed_bytes(parent[key].encode("utf-8", "surrogatepass"), rng).decode("latin-1")
        else:
            parent[key] = copy.deepcopy(rng.choice(ODD))
        if not root:
            break
    return root[0] if root else None


def _places(value: Any) -> Any:
    """Yield every value inside of nested ones, as what holds it and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def json_mutation(data: bytes, seed: int) -> bytes:
    """Return an input that is JSON with changes to what it says, or for a change to its bytes."""
    return json_head_mutation(lambda given: (given, b""), lambda head, _: head)(data, seed)


def json_head_mutation(
    split: Callable[[bytes], tuple[bytes, bytes]], join: Callable[[bytes, bytes], bytes]
) -> Callable[[bytes, int], bytes]:
    """Return the mutation of inputs that are JSON and bytes behind it."""

    def mutate(data: bytes, seed: int) -> bytes:
        rng = random.Random(seed)
        head, rest = split(data)
        if rest and rng.random() < 0.4:
            return join(head, changed_bytes(rest, rng))
        if rng.random() < 0.2:
            return join(changed_bytes(head, rng), rest)
        try:
            said = json.loads(head)
        except (ValueError, RecursionError):
            return join(changed_bytes(head, rng), rest)
        return join(json.dumps(changed_json(said, rng)).encode(), rest)

    return mutate
