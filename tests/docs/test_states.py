from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from piecework.domain.question import QuestionState
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store import dead_letters, effects, notifications, outbox
from piecework.store.batches import Batches
from piecework.store.checkpoints import ChunkCheckpoints
from piecework.store.claims import Claims
from piecework.store.dead_letters import DeadLetters
from piecework.store.deletions import Deletions
from piecework.store.effects import EffectLedger
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs
from piecework.store.ladders import Ladders
from piecework.store.notifications import Notifications
from piecework.store.occasions import Occasions
from piecework.store.pushes import Pushes
from piecework.store.questions import ChunkQuestions
from piecework.store.renewals import Renewals
from piecework.store.settlements import Settlements
from piecework.store.takeovers import Takeovers
from piecework.store.waits import WaitIndex
from tests.docs.pages import ENDS, ROOT, edges, prose

STORES = (
    Batches,
    ChunkCheckpoints,
    ChunkQuestions,
    Claims,
    DeadLetters,
    Deletions,
    EffectLedger,
    JobTransitions,
    Jobs,
    Ladders,
    Notifications,
    Occasions,
    outbox.Outbox,
    Pushes,
    Renewals,
    Takeovers,
    Settlements,
    WaitIndex,
)

STATE = r"[A-Z]{4,}"
ARROWS = re.compile(
    rf"{STATE}(?: \| {STATE})*(?: with an expired lease)?"
    rf"(?: -> {STATE}(?: \| {STATE})*)+"
)

STATES = ROOT / "docs/states.md"


def drawings() -> dict[str, set[tuple[str, str]]]:
    """Return the edges of the drawing under each heading."""
    parts = re.split(r"^## (.+)$", STATES.read_text("utf-8"), flags=re.MULTILINE)
    found = {
        title: re.findall(r"\(drawings/([\w-]+)\.svg\)", body)
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: edges(names[0]) for title, names in found.items() if names}


EFFECT_STATES = {
    effects.INTENT,
    effects.DONE,
    effects.REFUSED,
    effects.UNKNOWN,
    effects.COMPENSATED,
}


@pytest.mark.parametrize(
    ("title", "states"),
    [
        ("Job", set(JobStatus)),
        ("Chunk", set(ChunkStatus)),
        ("Effect", EFFECT_STATES),
        ("Delivery", {outbox.PENDING, outbox.DELIVERED, outbox.FAILED}),
        ("Dead letter", {"OPEN", "REDRIVEN", "DISCARDED"}),
        ("Question", set(QuestionState)),
        (
            "Notification",
            {notifications.PENDING, notifications.DELIVERED, notifications.ABANDONED},
        ),
    ],
)
def test_a_drawing_has_exactly_the_states_of_the_code(
    title: str, states: set[str]
) -> None:
    ends = {end for edge in drawings()[title] for end in edge}

    assert {str(state) for state in states} == ends - ENDS


def test_every_arrow_in_the_docstrings_of_the_store_is_drawn() -> None:
    known_edges = {edge for drawing in drawings().values() for edge in drawing}
    said = set(arrows_of_the_store())

    assert len(said) >= 15
    assert set() == said - known_edges


def arrows_of_the_store() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "piecework/store").glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        for node in ast.walk(tree):
            if isinstance(node, documented):
                yield from arrows(ast.get_docstring(node) or "")


def arrows(text: str) -> Iterator[tuple[str, str]]:
    for chain in ARROWS.findall(text):
        steps = [re.findall(STATE, step) for step in chain.split(" -> ")]
        for sources, targets in pairwise(steps):
            yield from ((s, t) for s in sources for t in targets)


def test_every_verb_that_the_page_of_states_names_exists() -> None:
    stores = {store.__name__: store for store in STORES}
    named = re.findall(r"`([A-Z]\w+)\.(\w+)`", STATES.read_text("utf-8"))
    plain = re.findall(r"`(\w+)` in `(piecework/store/\w+\.py)`", prose(STATES))
    missing = [f"{c}.{v}" for c, v in named if not hasattr(stores.get(c), v)]
    missing += [v for v, f in plain if f"def {v}(" not in (ROOT / f).read_text("utf-8")]

    assert len(named) >= 20
    assert [] == missing


def tables() -> str:
    pages = ("docs/tables.md", "docs/reference/rows.md")
    return "".join((ROOT / page).read_text("utf-8") for page in pages)


def test_every_attribute_of_a_dead_letter_is_on_the_pages_of_tables() -> None:
    source = Path(dead_letters.__file__).read_text("utf-8")
    tree = ast.parse(source)
    written = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    page = tables()
    # Values of a condition are not attributes.
    values = {"open", "redriven", "discarded", "now", "actor", "reason", "next"}
    values |= {"place", "sha256"}
    missing = {name for name in written - values if not re.search(rf"\b{name}\b", page)}

    assert set() == missing


def test_every_attribute_that_the_store_sets_is_on_the_pages_of_tables() -> None:
    page = tables()
    attributes = set(attributes_of_the_store())

    assert len(attributes) >= 50
    assert [] == sorted(a for a in attributes if not re.search(rf"\b{a}\b", page))


def attributes_of_the_store() -> Iterator[str]:
    """Yield the attributes in the update expressions of the store."""
    for path in (ROOT / "piecework/store").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(
                    r"(?:SET |, |ADD )#?([a-z_]+) (?:=|:)", node.value
                )
                for removed in re.findall(r"REMOVE ([a-z_, ]+)", node.value):
                    yield from re.findall(r"\w+", removed)
