"""Test that each checker detects its planted violation."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from piecework_simulation import provider
from piecework_simulation.driver.actions import ScheduleDriver
from piecework_simulation.invariants import (
    budgets,
    checker,
    chunk_invariants,
    end_state,
    lanes,
    order,
    ownership,
    pauses,
    questions,
    quotas,
    streams,
)
from tests.simulation.planted_ends import ENDS, alter_certificate, violations_of_run
from tests.simulation.planted_writes import WRITES
from tests.simulation.story import CHUNK, REF, Story

CHECKERS = (
    *(checker, chunk_invariants, end_state, order, ownership, pauses, quotas),
    *(budgets, lanes, provider, questions, streams),
)
#: Matches `report_violation(f"..."` and `yield f"I1..."` in sources of the checkers.
SAYS = re.compile(r"(?:report_violation\(\s*f?|yield f(?=.I))\"([^\"]+)\"")


def test_a_valid_history_violates_nothing() -> None:
    story = Story()
    story.run_whole_job()
    assert [] == story.invariants.violations


def test_a_worker_that_has_lost_its_claim_may_still_be_harmed() -> None:
    story = Story()
    story.submit_job()
    story.claim(CHUNK)
    story.lose_claim()
    story.provider.check_harm((REF.tenant, REF.job, 0), "w")
    assert [] == [each for each in story.invariants.violations if "I16" in each]


@pytest.mark.parametrize("text", WRITES)
def test_an_invalid_write_is_detected(text: str) -> None:
    story = Story()
    for step in WRITES[text]:
        step(story)
    assert [] != [each for each in story.invariants.violations if matches(text, each)]


def test_a_valid_final_state_violates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert () == violations_of_run(monkeypatch, lambda *_: None)


@pytest.mark.parametrize("text", ENDS)
def test_an_invalid_final_state_is_detected(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    violations = violations_of_run(monkeypatch, ENDS[text])
    assert [] != [each for each in violations if matches(text, each)]


def test_a_result_missing_from_the_certificate_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    violations = violations_of_run(
        monkeypatch,
        lambda world, invariants: alter_certificate(
            world, invariants, lambda content: content["results"].pop("0")
        ),
    )
    assert {"I12", "I5"} == {text.partition(":")[0] for text in violations}


def test_every_checker_message_has_a_planted_violation() -> None:
    sources = [Path(str(module.__file__)).read_text("utf-8") for module in CHECKERS]
    can_be_said = {text for source in sources for text in SAYS.findall(source)}
    assert len(can_be_said) > 30
    assert set() == can_be_said - {*WRITES, *ENDS}


def matches(template: str, text: str) -> bool:
    """Return whether a text matches a checker's message template."""
    words = map(re.escape, re.split(r"\{[^}]+\}", template))
    return re.match(".*".join(words), text) is not None


def test_a_dead_letter_queue_that_stays_full_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def leave(*_: object) -> Counter[str]:
        return Counter()

    async def leave_a_message(self: ScheduleDriver) -> None:
        dead = self.world.urls[self.world.settings.dead_letter_queue]
        letter = {"QueueUrl": dead, "MessageBody": "left behind"}
        self.world.sqs.call("send_message", letter)

    monkeypatch.setattr("piecework.reconciler.loop.drain", leave)
    monkeypatch.setattr(ScheduleDriver, "resume_jobs", leave_a_message)

    violations = violations_of_run(monkeypatch, lambda *_: None)

    assert ("L5: the dead-letter queue is not empty",) == violations
