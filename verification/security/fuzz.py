"""Messages that Piecework never sends: damaged and hostile ones, from a seed."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

TENANTS = ("acme", "globex")
GOOD: dict[str, Any] = {"v": 1, "tenant": "acme", "job": "j", "chunk": 1, "gen": 1}
ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 2**31, 2**63, 10**40, 1.5, -0.0, "", " ", "1"),
    *(
        [],
        {},
        [1],
        {"a": 1},
        "../x",
        "a#b",
        "T#globex#J#j",
        "acme\n",
        "acmé",
        "\uff41\uff43\uff4d\uff45",
    ),
    *("acme\u0000", "x" * 65, "x" * 4000, "JOIN", "META", "%2e%2e", "${jndi:ldap://x}"),
)
KEYS = (
    *("handler", "module", "import", "__class__", "__reduce__", "py/object", "payload"),
    *("s3_key", "pipeline", "eval", "tenant ", "Tenant", "v\u0000", "code", "url"),
)
FOREIGN = (
    base64.b64encode(pickle.dumps(print)).decode(),
    "!!python/object/apply:os.system ['true']",
    '{"py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["true"]}]}',
    "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>",
    '{"Type": "Notification", "Message": "{}", "TopicArn": "arn:aws:sns:x"}',
    "rO0ABXNyABFqYXZhLnV0aWwuSGFzaE1hcA==",
    "__import__('os').system('true')",
    "{{7*7}}${7*7}<%= 7*7 %>",
)


def bodies(count: int, seed: int) -> Iterator[str]:
    """Yield bodies, each family as often as the others; equal seeds give equal ones."""
    rng = Random(seed)
    for number in range(count):
        yield FAMILIES[number % len(FAMILIES)](rng)


def good(rng: Random) -> dict[str, Any]:
    """Return what one of ours says, of some tenant, job, chunk and generation."""
    job = rng.choice(("j", "j", "gone"))
    chunk, gen = rng.choice((-1, 0, 1, 7)), rng.choice((1, 1, 2))
    return GOOD | {
        "tenant": rng.choice(TENANTS),
        "job": job,
        "chunk": chunk,
        "gen": gen,
    }


def forged(rng: Random) -> str:
    """Be of our form, and about something that may exist."""
    return json.dumps(good(rng))


def one_field_wrong(rng: Random) -> str:
    """Have one field of another type or size."""
    return json.dumps(good(rng) | {rng.choice([*GOOD]): rng.choice(ODD)})


def field_missing(rng: Random) -> str:
    """Lack one or more fields."""
    said = good(rng)
    for name in rng.sample([*GOOD], rng.randint(1, 4)):
        del said[name]
    return json.dumps(said)


def key_injected(rng: Random) -> str:
    """Say more than there is to say."""
    more = {rng.choice(KEYS): rng.choice([*ODD, *FOREIGN])}
    return json.dumps(good(rng) | more)


def key_twice(rng: Random) -> str:
    """Say two things under one name."""
    text = json.dumps(good(rng))
    name = rng.choice([*GOOD])
    other = json.dumps(rng.choice([*ODD, "globex", 1]))
    return f'{text[:-1]}, "{name}": {other}}}'


def newer(rng: Random) -> str:
    """Be of a version that is not ours."""
    versions = (0, 2, 3, -1, 10**30, "1", "2", True, None, 1.0, [1])
    return json.dumps(good(rng) | {"v": rng.choice(versions)})


def deep(rng: Random) -> str:
    """Be nested."""
    levels = rng.choice((33, 100, 990, 5_000, 8_000))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    inside = opening * levels + "1" + closing * (levels if rng.random() < 0.5 else 0)
    return inside if rng.random() < 0.5 else f'{{"v":1,"tenant":{inside}}}'


def giant(rng: Random) -> str:
    """Be too long, or hold too long a number."""
    match rng.randint(0, 3):
        case 0:
            return json.dumps(
                good(rng) | {"tenant": "x" * rng.choice((17_000, 250_000))}
            )
        case 1:
            return f'{{"v":{"9" * rng.choice((65, 4_301, 15_000))},"tenant":"acme"}}'
        case 2:
            return "[" + "0," * 60_000 + "0]"
        case _:
            return json.dumps(good(rng)) + " " * 20_000


def odd_number(rng: Random) -> str:
    """Hold what JSON has no word for."""
    word = rng.choice(("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x10", "01"))
    name = rng.choice([*GOOD])
    said = json.dumps({k: v for k, v in good(rng).items() if k != name})
    return f'{said[:-1]}, "{name}": {word}}}'


def damaged(rng: Random) -> str:
    """Be cut off, or have a character changed."""
    text = json.dumps(good(rng))
    at = rng.randrange(len(text))
    if rng.random() < 0.5:
        return text[:at]
    return text[:at] + chr(rng.choice((0, 0x7F, 0xA0, 0x202E, 0xFF0F))) + text[at + 1 :]


def odd_characters(rng: Random) -> str:
    """Hold halves of characters, marks, or look-alikes."""
    odd = rng.choice(
        ("\ud800", "\udfff", "\\ud800", "\ufeff", "\u202e", "\u0000", "\U0001d4b6")
    )
    text = json.dumps(good(rng))
    return rng.choice((odd + text, text.replace("acme", f"ac{odd}me"), text + odd, odd))


def noise(rng: Random) -> str:
    """Be any text."""
    length = rng.choice((0, 1, 16, 300))
    return "".join(chr(rng.randrange(1, 0xD800)) for _ in range(length))


def foreign(rng: Random) -> str:
    """Return a message of another system, or an attack on another kind of reader."""
    text = rng.choice(FOREIGN)
    return text if rng.random() < 0.5 else json.dumps(rng.choice((text, [text])))


FAMILIES: tuple[Callable[[Random], str], ...] = (
    *(forged, one_field_wrong, field_missing, key_injected, key_twice, newer, deep),
    *(giant, odd_number, damaged, odd_characters, noise, foreign),
)
