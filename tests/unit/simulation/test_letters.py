"""The simulator's book of dead letters sees each thing that may go wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.store.wire import to_item
from simulation.cloud.dynamodb import Change
from simulation.letters import LetterBook

NAME = {"job": "j", "chunk": 3, "gen": 1}
DEAD = NAME | {"status": "DEAD"}
AGAIN = NAME | {"status": "DEAD", "gen": 2}
DONE = NAME | {"status": "SUCCEEDED", "gen": 2}


def written(*states: str, marks: bool = True, gen: int = 1) -> list[str]:
    """Return what the book says of a letter that went through states."""
    return told([], *states, marks=marks, gen=gen)


def told(chunks: Any, *states: str, marks: bool = True, gen: int = 1) -> list[str]:
    broken: list[str] = []
    book = LetterBook(broken.append)
    old: Any = None
    for state in states:
        new = NAME | {"kind": "dead-letter", "letter_state": state, "gen": gen}
        item = to_item(new)
        book.written(Change("t", "pk", "sk", old, item))
        old = item
    if marks and states and states[-1] == "OPEN":
        mark = to_item(NAME | {"kind": "open", "gen": gen})
        book.written(Change("t", "marks", "sk", None, mark))
    if chunks:
        book.check(chunks)
    return broken


@pytest.mark.parametrize(
    "states", [["OPEN"], ["OPEN", "REDRIVEN"], ["OPEN", "DISCARDED"]]
)
def test_a_letter_moves_as_it_may(states: list[str]) -> None:
    assert [] == written(*states)


@pytest.mark.parametrize(
    "states",
    [
        ["REDRIVEN"],
        ["OPEN", "OPEN"],
        ["OPEN", "DISCARDED", "REDRIVEN"],
        ["OPEN", "REDRIVEN", "OPEN"],
    ],
)
def test_any_other_move_is_seen(states: list[str]) -> None:
    assert 1 == len(written(*states))


@pytest.mark.parametrize(
    ("chunk", "states"),
    [
        (DEAD, ["OPEN"]),
        (DEAD, ["OPEN", "DISCARDED"]),
        (DONE, ["OPEN", "REDRIVEN"]),
    ],
)
def test_a_dead_chunk_has_its_letter(chunk: Any, states: list[str]) -> None:
    assert [] == told([chunk], *states)


@pytest.mark.parametrize(
    ("chunk", "states", "marks", "said"),
    [
        (DEAD, [], True, "is dead without a letter"),
        (DEAD, ["OPEN", "REDRIVEN"], True, "its letter was redriven"),
        (DEAD, ["OPEN"], False, "disagree"),
        (DONE, ["OPEN"], True, "is not dead, and its letter is open"),
        (AGAIN, ["OPEN"], True, "is not dead, and its letter is open"),
    ],
)
def test_what_does_not_fit_at_the_end_is_seen(
    chunk: Any, states: list[str], marks: Any, said: str
) -> None:
    assert any(said in line for line in told([chunk], *states, marks=marks))
