"""Run every recorded write of Piecework on items that meet its condition or not."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

RECORD = Path(__file__).parent / "piecework_writes.jsonl"
ATTRIBUTE = re.compile(r"#?\b([a-z][a-z_0-9]*)\b(?!\()")
COMPARED = re.compile(r"#?\b([a-z][a-z_0-9]*) (=|<|<=|>|>=|IN) [(]?(:\w+)")
ABSENT = re.compile(r"attribute_not_exists\(#?(\w+)\)")
PRESENT = re.compile(r"attribute_exists\(#?(\w+)\)")
COUNTED = re.compile(r"= ([a-z_]+) [+-] :")
APPENDED = re.compile(r"list_append\(if_not_exists\(([a-z_]+), :\w+\), (:\w+)\)")
KEYWORDS = {"pk", "sk"}
ITEMS = 8
NUMBERS = [{"N": "-1"}, {"N": "99"}]
LISTS: list[dict[str, Any]] = [{"L": []}, {"L": [{"S": "present"}]}]
ANY = [{"S": ""}, {"S": "~"}, *NUMBERS, {"NS": ["1"]}]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A write, with the values that it was sent with."""

    kind: str
    update: str
    condition: str
    values: dict[str, Any]

    @property
    def creates(self) -> bool:
        """Return whether a write may create an item."""
        return (
            self.kind == "Put" or re.search(r"\b(SET|ADD)\b", self.update) is not None
        )

    def request(self) -> dict[str, Any]:
        """Return the parameters of the write's expressions."""
        request: dict[str, Any] = {}
        if self.update:
            request["UpdateExpression"] = self.update
        if self.condition:
            request["ConditionExpression"] = self.condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if marked := set(re.findall(r"#(\w+)", f"{self.update} {self.condition}")):
            request["ExpressionAttributeNames"] = {f"#{name}": name for name in marked}
        if self.values:
            request["ExpressionAttributeValues"] = self.values
        return request


def recorded() -> list[Recorded]:
    """Return all writes that were recorded."""
    lines = RECORD.read_text("utf-8").splitlines()
    return [Recorded(**json.loads(line, object_hook=with_bytes)) for line in lines]


def with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Return a value of bytes as the SDK takes it, and any other object as it is."""
    is_binary = found.keys() == {"B"} and isinstance(found["B"], str)
    return {"B": base64.b64decode(found["B"])} if is_binary else found


def items(write: Recorded, rng: Random) -> Iterator[dict[str, Any] | None]:
    """Yield what stands there before the write: nothing, a match, and near misses.

    An absent item meets no update that only removes, what is counted stays a number,
    and what is appended to stays a list. The emulators differ there.
    """
    if write.creates or write.kind in {"ConditionCheck", "Delete"}:
        yield None
    match = matching(write)
    yield match
    names = sorted(mentioned(write))
    counted = COUNTED.findall(write.update)
    appended = dict(APPENDED.findall(write.update))
    for name in sorted({name for name, *_ in COMPARED.findall(write.condition)}):
        if name not in counted:
            yield match | {name: {"BOOL": True}}
    for name in ABSENT.findall(write.condition):
        if name in appended:
            yield match | {name: write.values[appended[name]]}
        elif name not in counted:
            yield match | {name: {"S": "present"}}
    for _ in range(ITEMS):
        near = dict(match)
        for name in rng.sample(names, min(len(names), 2)):
            near.pop(name, None)
            if rng.random() < 0.6:
                near[name] = rng.choice(
                    NUMBERS if name in counted else LISTS if name in appended else ANY
                )
        yield near


def matching(write: Recorded) -> dict[str, Any]:
    """Return an item with each compared attribute as the first comparison wants it."""
    found: dict[str, Any] = {}
    for name, sign, value in COMPARED.findall(write.condition):
        wanted = write.values[value]
        if sign in "<>":
            wanted = less(wanted) if sign == "<" else more(wanted)
        found.setdefault(name, wanted)
    for name in PRESENT.findall(write.condition):
        found.setdefault(name, {"S": "present"})
    for name in COUNTED.findall(write.update):
        found.setdefault(name, {"N": "1"})
    return found


def less(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value before a number or a string."""
    if "N" in value:
        return {"N": str(int(value["N"]) - 1)}
    return {"S": "0"}


def more(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value after a number or a string."""
    if "N" in value:
        return {"N": str(int(value["N"]) + 1)}
    return {"S": "9"}


def mentioned(write: Recorded) -> set[str]:
    """Return the attributes that a write's expressions name."""
    text = re.sub(r":\w+", "", f"{write.update} {write.condition}")
    return set(ATTRIBUTE.findall(text)) - KEYWORDS
