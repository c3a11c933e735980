"""Each checker of the simulator bites: what is planted is found, in its own words."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from simulation import chunk_book, ending, outside, promises
from simulation.acts import Acts
from tests.simulation.planted_ends import ENDS, certified, ended
from tests.simulation.planted_writes import WRITES
from tests.simulation.story import Story

CHECKERS = (promises, chunk_book, ending, outside)
#: `break_(f"..."` and `broken(f"..."` in the sources of the checkers.
SAYS = re.compile(r"(?:break_|broken)\(\s*f?\"([^\"]+)\"")


def test_a_life_as_it_should_be_breaks_nothing() -> None:
    story = Story()
    story.live()
    assert [] == story.promises.broken


@pytest.mark.parametrize("said", WRITES)
def test_a_write_that_breaks_a_promise_is_found(said: str) -> None:
    story = Story()
    WRITES[said](story)
    assert [] != [each for each in story.promises.broken if matches(said, each)]


def test_an_end_as_it_should_be_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert () == ended(monkeypatch, lambda *_: None)


@pytest.mark.parametrize("said", ENDS)
def test_an_end_that_breaks_a_promise_is_found(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ended(monkeypatch, ENDS[said])
    assert [] != [each for each in broken if matches(said, each)]


def test_a_result_that_no_certificate_has_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = ended(
        monkeypatch,
        lambda world, promises: certified(
            world, promises, lambda told: told["results"].pop("0")
        ),
    )
    assert {"I12", "I5"} == {said.partition(":")[0] for said in broken}


def test_there_is_something_planted_for_all_that_a_checker_can_say() -> None:
    sources = [Path(str(module.__file__)).read_text("utf-8") for module in CHECKERS]
    can_be_said = {said for source in sources for said in SAYS.findall(source)}
    assert len(can_be_said) > 30
    assert set() == can_be_said - {*WRITES, *ENDS}


def matches(template: str, said: str) -> bool:
    """Say whether these are a checker's words, with the facts filled in."""
    words = map(re.escape, re.split(r"\{[^}]+\}", template))
    return re.match(".*".join(words), said) is not None


def test_a_dead_letter_queue_that_nobody_empties_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def leave(*_: object) -> Counter[str]:
        return Counter()

    async def bury(self: Acts) -> None:
        dead = self.world.urls[self.world.settings.dead_letter_queue]
        letter = {"QueueUrl": dead, "MessageBody": "left behind"}
        self.world.sqs.call("send_message", letter)

    monkeypatch.setattr("piecework.reconcile.loop.drain", leave)
    monkeypatch.setattr(Acts, "repair", bury)

    broken = ended(monkeypatch, lambda *_: None)

    assert ("L5: the dead-letter queue is not empty",) == broken
