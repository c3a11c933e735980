"""The simulator's book of dead letters sees each thing that may go wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.store.serialization import to_item
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.invariants.dead_letters import DeadLetterInvariants

NAME = {"tenant": "t", "job": "j", "chunk": 3, "gen": 1}
DEAD = NAME | {"status": "DEAD"}
AGAIN = NAME | {"status": "DEAD", "gen": 2}
DONE = NAME | {"status": "SUCCEEDED", "gen": 2}


def write_violations(*states: str, marks: bool = True, gen: int = 1) -> list[str]:
    """Return what the book says of a letter that went through states."""
    return final_violations([], *states, marks=marks, gen=gen)


def final_violations(
    chunks: Any, *states: str, marks: bool = True, gen: int = 1
) -> list[str]:
    violations: list[str] = []
    book = DeadLetterInvariants(violations.append)
    old: Any = None
    for state in states:
        new = NAME | {"kind": "dead-letter", "state": state, "gen": gen}
        item = to_item(new)
        book.check_write(Change("t", "pk", "sk", old, item))
        old = item
    if marks and states and states[-1] == "OPEN":
        mark = to_item(NAME | {"kind": "open", "gen": gen})
        book.check_write(Change("t", "marks", "sk", None, mark))
    if chunks:
        book.check(chunks)
    return violations


@pytest.mark.parametrize(
    "states", [["OPEN"], ["OPEN", "REDRIVEN"], ["OPEN", "DISCARDED"]]
)
def test_valid_dead_letter_transitions_are_accepted(states: list[str]) -> None:
    assert [] == write_violations(*states)


@pytest.mark.parametrize(
    "states",
    [
        ["REDRIVEN"],
        ["OPEN", "OPEN"],
        ["OPEN", "DISCARDED", "REDRIVEN"],
        ["OPEN", "REDRIVEN", "OPEN"],
    ],
)
def test_an_invalid_dead_letter_transition_is_detected(states: list[str]) -> None:
    assert 1 == len(write_violations(*states))


@pytest.mark.parametrize(
    ("chunk", "states"),
    [
        (DEAD, ["OPEN"]),
        (DEAD, ["OPEN", "DISCARDED"]),
        (DONE, ["OPEN", "REDRIVEN"]),
    ],
)
def test_a_dead_chunk_has_a_dead_letter(chunk: Any, states: list[str]) -> None:
    assert [] == final_violations([chunk], *states)


@pytest.mark.parametrize(
    ("chunk", "states", "marks", "text"),
    [
        (DEAD, [], True, "is dead without a letter"),
        (DEAD, ["OPEN", "REDRIVEN"], True, "its letter is redriven"),
        (DEAD, ["OPEN"], False, "differs from the open-letter list"),
        (DONE, ["OPEN"], True, "is not dead but has an open letter"),
        (AGAIN, ["OPEN"], True, "is not dead but has an open letter"),
    ],
)
def test_an_inconsistent_final_state_is_detected(
    chunk: Any, states: list[str], marks: Any, text: str
) -> None:
    assert any(text in line for line in final_violations([chunk], *states, marks=marks))
