"""The changes of the drill: both versions of each pipeline, and how its chunks end.

`shop.txt` is the pipeline, and `table.txt` has the changes. Each is tried in both
directions, and with an effect whose provider honours its key, or does not.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SHOP: Final = (HERE / "shop.txt").read_text("utf-8")
#: The moments of a chunk at which version 1 ends.
MOMENTS: Final = ("before", "flight", "answered", "checkpointed", "ended")
#: The ends of a chunk, by the letter that a row has for each moment.
ENDS: Final = {
    "O": "SUCCEEDED, and each act happened once",
    "S": "stopped before the send: runtime.code.changed",
    "G": "waits for a worker with its stage: runtime.stage.not_found",
    "D": "dead: a person looks one effect up: runtime.effect.unknown",
    "U": "dead, and every act was undone",
    "L": "dead, and what was not undone is named",
    "P": "dead: the payload does not fit the model: runtime.payload.invalid",
    "V": "dead: a stored value does not fit its type: runtime.value.unreadable",
    "N": "not claimed: no worker has its pipeline",
}
#: The functions of `SHOP` that do something, or are paid for.
ACTS: Final = {"reserve", "quote", "charge", "bill", "send", "audit"}
KINDS: Final = {"keyed": "PROVIDER_IDEMPOTENT", "once": "NON_IDEMPOTENT"}

# ── texts that the table names ────────────────────────────────────────────────

CALL: Final = "@shop.call", '@shop.call(name="shop.charge")'
IMPORTS: Final = """from typing import Any as Order

from piecework import Dependency, Effect, RetryPolicy
from verification.deployments.kit import act

ONCE = RetryPolicy(attempts=1)
"""
STAGES: Final = "[Stage(hold, compensate=unhold), Stage(pay), Stage(ship)]"
SHOWN: Final = {
    "hold": "hold, compensate=unhold",
    "paid": "pay, compensate=unpay",
    "pay!": "pay, pivot=True",
}


def part(first: str, last: str) -> str:
    """Return the lines of the pipeline from one that begins so to another."""
    lines = SHOP.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith(first))
    to = next(n for n in range(at, len(lines)) if lines[n].startswith(last))
    return "".join(lines[at : to + 1])


FIELD: Final = part("class Order", "    order")
CHARGE: Final = part("    receipt =", "    receipt =")
BEFORE: Final = part('    await gate(ctx.payload.order, "before', "    await")
ANSWERED: Final = part('    await gate(ctx.payload.order, "answered', "    await")
SENT: Final = "    return await send(ctx.payload.order)\n"
DEFINED: Final = part("@shop.call", "    return")
NAMED: Final = DEFINED.replace(*CALL)
OWN: Final = f"{IMPORTS}{part('shop =', 'HONOURS')}\n\n{DEFINED}"
TEXTS: Final = {
    "IN": "    ",
    "FIELD": FIELD,
    "CHARGE": CHARGE,
    "BEFORE": BEFORE,
    "ANSWERED": ANSWERED,
    "PAID": f"{BEFORE}{CHARGE}{ANSWERED}    return receipt\n",
    "AUDITED": f"{BEFORE}{CHARGE}{ANSWERED}    await audit(ctx.payload.order)\n"
    "    return receipt\n",
    "SHIPPED": part('    await gate(ctx.payload.order, "check', "    return"),
    "DEFINED": DEFINED,
    "NAMED": NAMED,
    "COUNTED": DEFINED.replace("-> str", "-> int")
    .replace("await act", "len(await act")
    .replace("HONOURS)", "HONOURS))"),
}
#: What another module has, after a call or a model has moved there.
MODULES: Final = {
    "MODULE": OWN,
    "NAMED_MODULE": OWN.replace(*CALL),
    "MODEL": f"from pydantic import BaseModel\n\n\n{FIELD}",
}
Edit = tuple[str, str]


@dataclass(slots=True)
class Change:
    """A row of the table.

    Attributes:
        ends: The ends of the change, a letter for each moment; empty: it has no row.
        back: Those of the rollback, from the edited version to the one before.
        both: Edits of both versions; `edits`: of the second.
        row: What the submitted payload has besides its order.
        adds: The acts that the edited version has besides, each with the number of
            moments at which chunks still do it.
        repays: Whether the pure call of a stage in progress is made again.
        moved: The text of the module `parts_NAME` that the edited version imports.
        join: The end of the join, and of it in the rollback; `-`: it is not looked at.
    """

    name: str
    ends: str
    back: str = ""
    both: list[Edit] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    row: Mapping[str, object] = field(default_factory=dict)
    adds: Mapping[str, int] = field(default_factory=dict)
    repays: bool = False
    moved: str = ""
    join: str = "--"


def changes() -> Iterator[Change]:
    """Yield the rows of the table."""
    text = (HERE / "table.txt").read_text("utf-8")
    for block in re.split(r"\n{2,}", text):
        first, *lines = [line for line in block.split("\n") if line]
        if first.startswith("#"):
            continue
        name, ends, back, *options = first.split(" ")
        known = dict(option.partition("=")[::2] for option in options)
        change = Change(name, ends.strip("-"), back.strip("-"))
        change.repays = "repays" in known
        change.row = json.loads(known.get("row", "{}"))
        change.join = known.get("join", "").ljust(2, "-")
        change.moved = MODULES.get(known.get("moved", ""), "")
        if "adds" in known:
            act, _, moments = known["adds"].partition(":")
            change.adds = {act: int(moments)}
        for line in lines:
            edits = change.both if line.startswith("both: ") else change.edits
            edits.append(edit_of(line.removeprefix("both: ")))
        yield change


def edit_of(line: str) -> Edit:
    """Return the edit that a line of the table names."""
    word, _, rest = line.partition(" ")
    if " =>" not in line:
        match word:
            case "field":
                return FIELD, f"{FIELD}    {rest}\n"
            case "also":
                return "    payload=Order,\n", f"    payload=Order,\n    {rest},\n"
            case "stages":
                shown = [f"Stage({SHOWN.get(name, name)})" for name in rest.split()]
                return STAGES, f"[{', '.join(shown)}]"
            case "broken":
                return SENT, '    raise PermanentError("No.", code="tool.shop.no")\n'
    old, _, new = (spelled(each) for each in line.partition(" =>"))
    return old, new.removeprefix(" ")


def spelled(text: str) -> str:
    """Return a text of the table with its line ends and named parts."""
    for name, known in TEXTS.items():
        text = text.replace("{" + name + "}", known)
    return text.replace("\\n", "\n")


# ── the versions of a change ──────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Deployment:
    """A change in one direction, with one kind of effect: both versions of a module.

    Attributes:
        kind: Of `KINDS`; empty: the change itself decides.
        join: The letter of the end of the join; empty: it is not looked at.
        parts: The texts of the modules that one of the versions imports.
    """

    name: str
    change: Change
    kind: str
    before: str
    after: str
    ends: str
    join: str
    is_back: bool
    parts: Mapping[str, str]

    @property
    def moments(self) -> Sequence[str]:
        """The moments of its chunks: the kind of an effect counts only at some."""
        return MOMENTS[1:3] if self.kind == "once" else MOMENTS

    @property
    def module(self) -> str:
        """The name of its module, and of its pipeline."""
        return self.name.replace("-", "_")

    def needed(self, moment: str) -> frozenset[str]:
        """Return the acts that a chunk with success has done.

        Those of both versions, of version 1 if it has ended the chunk, and those of
        version 2 that are new at this moment.
        """
        before, after = acts_of(self.before), acts_of(self.after)
        adds = {} if self.is_back else self.change.adds
        new = {act for act, n in adds.items() if MOMENTS.index(moment) < n}
        return before if moment == "ended" else before & after | new


def deployments(names: Sequence[str] = ()) -> Iterator[Deployment]:
    """Yield each row in each direction, with each kind of effect.

    `names`: the beginnings of their names; empty: all.
    """
    for change in changes():
        whole = edited(SHOP, change.both)
        for kind in KINDS if "Effect.KIND" in whole else [""]:
            for is_back in (False, True):
                row = deployment(change, whole, kind, is_back=is_back)
                if row.ends and (not names or row.name.startswith(tuple(names))):
                    yield row


def deployment(change: Change, whole: str, kind: str, *, is_back: bool) -> Deployment:
    """Return a row in one direction, with one kind of effect."""
    name = "-".join(filter(None, (change.name, "back" if is_back else "", kind)))
    module, texts = name.replace("-", "_"), [whole, edited(whole, change.edits)]
    before, after, moved = (
        text.replace("Effect.KIND", f"Effect.{KINDS.get(kind)}").replace("NAME", module)
        for text in (*(reversed(texts) if is_back else texts), change.moved)
    )
    ends = change.back if is_back else change.ends
    join = change.join[is_back].strip("-")
    if kind == "once":
        ends, join = re.sub("(?<=^.)[OUL]", "D", ends), ""
    parts = {f"parts_{module}": moved} if moved else {}
    return Deployment(name, change, kind, before, after, ends, join, is_back, parts)


@cache
def acts_of(text: str) -> frozenset[str]:
    """Return the acts of the stages of a version, and of the helpers they call."""
    functions = {
        each.name: {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
        for each in ast.parse(text).body
        if isinstance(each, ast.AsyncFunctionDef)
    }
    stages = re.findall(r"Stage\((\w+)", text.partition("pipeline = ")[2])
    named = set[str]().union(*(functions[stage] for stage in stages))
    for helper in named & functions.keys() - ACTS:
        named |= functions[helper]
    return frozenset("charge" if name == "bill" else name for name in named & ACTS)


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with each edit made; an edit that finds nothing is an error."""
    for old, new in edits:
        if old not in text:
            message = f"An edit does not find {old!r}."
            raise ValueError(message)
        text = text.replace(old, new)
    return text
