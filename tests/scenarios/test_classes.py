"""Guarantee: the class of a failure decides what follows; no call is paid twice."""

from __future__ import annotations

import pytest

from piecework.domain.states import JobStatus
from piecework.pipelines import Pipeline
from piecework.settings import Settings
from tests.scenarios.conftest import ALL, Scenario
from tests.scenarios.pipelines import Item
from tests.scenarios.recovering import NONSENSE, REFUSED, isolated, plain, recovering


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know the pipelines, and wait little between attempts."""
    monkeypatch.setattr("piecework.saga.recovery.BASE", 0.05)
    for pipeline in (recovering, plain):
        monkeypatch.setitem(ALL, pipeline.name, pipeline)


async def worked(
    scenario: Scenario, trouble: str, pipeline: Pipeline = recovering
) -> tuple[JobStatus, int]:
    """Run a job of one chunk; return what it came to, and its attempts."""
    await scenario.submit(pipeline, [Item(n=1, trouble=trouble)])
    async with scenario.worker():
        ended = await scenario.ended()
    (chunk,) = await scenario.chunks()
    return ended.status, chunk.attempts


def did(scenario: Scenario, *words: str) -> list[list[str]]:
    """Return the lines of the ledger of these words."""
    return [line for line in scenario.ledger if line[0] in words]


async def test_transient_it_is_tried_again_and_its_call_is_not_paid_again(
    scenario: Scenario,
) -> None:
    assert (JobStatus.SUCCEEDED, 2) == await worked(scenario, "transient")

    assert 2 == scenario.happened("extract")
    assert 1 == scenario.happened("large")
    assert [] == did(scenario, "again", "by-rules", "free")


async def test_permanent_it_is_compensated_at_once(scenario: Scenario) -> None:
    assert (JobStatus.FAILED, 1) == await worked(scenario, "permanent")

    (letter,) = await scenario.letters()
    assert ("tool.stock.none", "COMPENSATED") == (
        letter["error_code"],
        letter["compensation"],
    )
    assert [] == did(scenario, "again", "by-rules")
    assert 1 == scenario.happened("free")


async def test_semantic_the_hook_asks_anew_with_the_code_of_the_failure(
    scenario: Scenario,
) -> None:
    assert (JobStatus.SUCCEEDED, 1) == await worked(scenario, "nonsense")

    assert [["again", "0", NONSENSE]] == did(scenario, "again")
    first, second = did(scenario, "large")
    assert ("-", NONSENSE) == (first[2], second[2])
    assert first[3] != second[3]
    assert 1 == scenario.happened("post", "0", "large")


async def test_policy_another_model_answers_and_the_refusing_one_is_not_asked_again(
    scenario: Scenario,
) -> None:
    assert (JobStatus.SUCCEEDED, 2) == await worked(scenario, "refused-transient")

    assert 2 == scenario.happened("extract")
    assert (1, 1) == (scenario.happened("large"), scenario.happened("small"))
    assert 1 == scenario.happened("post", "0", "small")


async def test_policy_a_stage_that_is_refused_is_done_in_another_way(
    scenario: Scenario,
) -> None:
    assert (JobStatus.SUCCEEDED, 1) == await worked(scenario, "stage-refused")

    assert [["by-rules", "0", REFUSED]] == did(scenario, "by-rules")
    assert 1 == scenario.happened("post", "0", "by-rules")


async def test_policy_an_effect_of_another_variant_is_not_repeated(
    scenario: Scenario,
) -> None:
    assert (JobStatus.SUCCEEDED, 2) == await worked(scenario, "full")

    assert [["room", "tavern"]] * 2 == did(scenario, "room")
    assert (1, 1) == (scenario.happened("inn"), scenario.happened("tavern"))


async def test_state_the_next_attempt_sees_what_the_tables_hold_and_nothing_else(
    scenario: Scenario,
) -> None:
    assert (JobStatus.SUCCEEDED, 2) == await worked(scenario, "state")

    seen = [line[2:] for line in did(scenario, "extract")]
    assert [["1", "1"], ["2", "1"]] == seen
    assert 1 == scenario.happened("reserve")
    assert 1 == scenario.happened("large")


@pytest.mark.parametrize(
    ("trouble", "code"), [("nonsense", NONSENSE), ("stage-refused", REFUSED)]
)
async def test_without_a_hook_semantic_and_policy_are_as_permanent(
    scenario: Scenario, trouble: str, code: str
) -> None:
    assert (JobStatus.FAILED, 1) == await worked(scenario, trouble, plain)

    (letter,) = await scenario.letters()
    assert (code, "COMPENSATED") == (letter["error_code"], letter["compensation"])
    assert 1 == scenario.happened("free")


async def test_an_isolated_stage_has_the_same_variants(machine: Scenario) -> None:
    troubles = ["nonsense", "refused", "stage-refused", "state"]
    items = [Item(n=n, trouble=trouble) for n, trouble in enumerate(troubles)]
    await machine.submit(isolated, items)
    await machine.process("--pipelines", "tests.scenarios.recovering")
    ended = await machine.ended()

    assert JobStatus.SUCCEEDED is ended.status
    assert [1, 1, 1, 2] == [chunk.attempts for chunk in await machine.chunks()]
    posted = {line[1]: line[2] for line in did(machine, "post")}
    answers = ["large", "small", "by-rules", "large"]
    assert answers == [posted[str(number)] for number in range(4)]
    assert (1, 1) == (machine.happened("again"), machine.happened("by-rules"))


async def test_only_an_operator_gives_an_input_more_attempts(
    scenario: Scenario,
) -> None:
    assert (JobStatus.FAILED, 3) == await worked(scenario, "never-well")
    assert 3 == scenario.happened("extract")

    await scenario.redrive()
    async with scenario.worker():
        await scenario.ended()

    first, second = await scenario.letters()
    assert 6 == scenario.happened("extract")
    assert (3, 3) == (first["attempts"], second["attempts"])
    assert (3, 6) == (first["claims"], second["claims"])
    assert ("REDRIVEN", "it is fixed") == (
        first["state"],
        first["redrive_reason"],
    )


def test_the_attempts_of_a_generation_are_fewer_than_five() -> None:
    assert 3 == Settings().max_attempts
