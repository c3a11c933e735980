"""A hundred canaries, and where they may be found: only where payloads belong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from verification.security.leaky import WAYS, Leak

#: Letters and digits of a canary in a row that are a leak.
STRETCH = 16
#: The attributes and rows that hold what stages were given and returned. The rows are
#: the checkpoints, remembered calls, effects and results of chunks. A chunk's row has
#: small values of its stages, each in the entry of its stage (decision 0046).
ALLOWED = {"value", "calls"}
ALLOWED_ROWS = ("WORK#", "CHUNK#", "RESULT#", "RESPONSE")
#: Objects that do.
ALLOWED_OBJECTS = ("/payload/", "/values/", "/calls/", "/effects/", "/artifacts/")
WORDS = (
    *("amber", "basalt", "cobalt", "damson", "ebony", "fennel", "garnet", "heather"),
    *("indigo", "juniper", "krypton", "lupin", "marble", "nectar", "onyx", "pewter"),
    *("quartz", "russet", "saffron", "topaz", "umber", "violet", "walnut"),
)


def letters(rng: Random, count: int) -> str:
    """Return letters and digits that occur nowhere else."""
    return "".join(rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=count))


def prose(rng: Random) -> str:
    """Return a sentence as it may stand in a contract."""
    return "The party of " + " ".join([*rng.sample(WORDS, 5), letters(rng, 8)])


def secret(rng: Random, kind: int) -> str:
    """Return a secret of one of nine kinds."""
    some = letters(rng, 24)
    card = "4" + "".join(rng.choices("0123456789", k=14))
    return (
        f"{some[:12]}.{some[12:]}@mail.example.org",
        card + check_digit(card),
        f"sk-live-{some}",
        f"Bearer {some}{some[::-1]}",
        f"AKIA{some[:16].upper()}",
        f"aws_secret_access_key={some}/{some[::-1]}",
        f"postgres://{some[:8]}:{some[8:]}@db.example/prod",
        f"ghp_{some}{some[:12]}",
        f"patient {some[:6]} {some[6:12]} born {some[12:]}",
    )[kind % 9]


def check_digit(digits: str) -> str:
    """Return what makes a card's number one."""
    doubled = [int(d) * (2 if i % 2 == 0 else 1) for i, d in enumerate(digits[::-1])]
    return str(-sum(sum(divmod(d, 10)) for d in doubled) % 10)


class Planted:
    """The canaries of one run, from a seed."""

    def __init__(self, seed: int = 1) -> None:
        rng = Random(seed)
        self.leaks = [
            Leak(
                way=way,
                prose=prose(rng),
                secret=secret(rng, kind),
                inner={letters(rng, 24): prose(rng)},
            )
            for kind, way in enumerate(WAYS)
        ]
        self.environment = {
            "CANARY_API_TOKEN": letters(rng, 32),
            "CANARY_PASSWORD": letters(rng, 20),
            "CANARY_DATABASE_DSN": f"db://{letters(rng, 30)}",
            "CANARY_AUTH_COOKIE": letters(rng, 40),
            "CANARY_PRIVATE_KEY": letters(rng, 64),
            "CANARY_CLIENT_SECRET": letters(rng, 28),
            "CANARY_SIGNING_SALT": letters(rng, 16),
        }
        self.messages = [secret(rng, kind) for kind in range(9)]

    @property
    def all(self) -> list[str]:
        """Every canary."""
        found = [text for leak in self.leaks for text in (leak.prose, leak.secret)]
        found += [t for leak in self.leaks for pair in leak.inner.items() for t in pair]
        return [*found, *self.environment.values(), *self.messages]


def leaks(canaries: list[str], places: Mapping[str, str]) -> list[str]:
    """Return which canary, or a longer part of one, is in which place."""
    bare = {place: strip(text) for place, text in places.items()}
    return [
        f"{canary!r} in {place}: …{near(text, part)}…"
        for canary in canaries
        for place, text in bare.items()
        for part in [found(strip(canary), text)]
        if part
    ]


def found(canary: str, text: str) -> str:
    """Return the first part of a canary that is in a text; empty if it has none."""
    length = min(STRETCH, len(canary))
    parts = (canary[i : i + length] for i in range(len(canary) - length + 1))
    return next((part for part in parts if part in text), "")


def near(text: str, part: str) -> str:
    """Return what stands around a part."""
    at = text.index(part)
    return text[max(0, at - 80) : at + 80]


def strip(text: str) -> str:
    """Return what is left of a text however it is spelt."""
    return "".join(filter(str.isalnum, text)).lower()


def outside_of_values(item: Mapping[str, Any]) -> str:
    """Return what an item says beside what stages were given and returned."""
    row = str(item["sk"]).startswith(ALLOWED_ROWS)
    kept = {k: v for k, v in item.items() if not (row and k in ALLOWED)}
    if row and "stages" in kept:
        entries = kept["stages"].items()
        kept["stages"] = {
            name: {k: v for k, v in entry.items() if k != "value"}
            for name, entry in entries
        }
    return repr(kept)


def manifests(keys: Iterator[str]) -> list[str]:
    """Return the objects that hold no payloads, answers or results."""
    return [key for key in keys if not any(part in key for part in ALLOWED_OBJECTS)]
