"""A saga whose dependency's breaker is open: it is deferred in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.outcome import CompensationResult, DeadLettered, Deferred, Retry
from piecework.errors import PermanentError, TransientError
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import breaker_open_error
from tests.unit.piecework.fakes import (
    NOW,
    caller,
    checkpoints_of,
    context,
    envelope,
    run,
)
from tests.unit.piecework.script import Script, dead

OPEN = breaker_open_error("bank", 20.0)


async def deferred(script: Script, **facts: Any) -> Deferred:
    outcome = await run(script.pipeline, **facts)
    assert isinstance(outcome, Deferred)
    return outcome


async def test_a_refused_chunk_waits_for_the_dependency_and_not_for_an_attempt() -> (
    None
):
    script = Script(fails={"b": OPEN})
    outcome = await deferred(script, attempt=3)
    assert ("bank", 30.0) == (outcome.blocked_on, outcome.delay)
    assert [] == script.compensated()


@pytest.mark.parametrize(
    ("counts", "waits"),
    [
        ({"breaker_deferrals": 1_999, "breaker_since": NOW - 86_399.0}, True),
        ({"breaker_deferrals": 2_000, "breaker_since": NOW - 1.0}, False),
        ({"breaker_deferrals": 1, "breaker_since": NOW - 86_400.0}, False),
        ({"breaker_deferrals": 1, "breaker_since": NOW - 86_400.0, "made": 1}, True),
    ],
)
async def test_a_chunk_is_deferred_a_limited_number_of_times_and_seconds(
    counts: dict[str, Any], *, waits: bool
) -> None:
    script, one = Script(undoable="a", fails={"b": OPEN}), caller()
    for name, value in counts.items():
        setattr(one.counts, name, value)
    outcome = await run(script.pipeline, ctx=context(script.pipeline, caller=one))
    if waits:
        assert isinstance(outcome, Deferred)
        assert outcome.has_progress is ("made" in counts)
        return
    failure = dead(outcome, CompensationResult.COMPENSATED)
    assert "runtime.deferral.exhausted" == failure.code
    for told in (
        f"{counts['breaker_deferrals']} times",
        "since 2023-11-1",
        "bank",
        "20 s",
    ):
        assert told in failure.message


@pytest.mark.parametrize(
    ("failed_probes", "waited", "attempt", "expected"),
    [
        (0, 3_600.0, 1, Deferred),
        (1, 3_599.0, 3, Deferred),
        (1, 3_600.0, 1, Retry),
        (1, 3_600.0, 3, DeadLettered),
    ],
)
async def test_a_second_failed_probe_of_a_chunk_spends_its_attempt_after_an_hour(
    failed_probes: int, waited: float, attempt: int, expected: type[Any]
) -> None:
    script, one = Script(fails={"b": OPEN}), caller()
    one.counts.failed_probes = failed_probes
    one.counts.breaker_since = NOW - waited
    probe = envelope(ErrorClass.TRANSIENT, code="tool.http.500_server_error")
    one.counts.probe_failure = probe
    ctx = context(script.pipeline, caller=one, attempt=attempt)
    outcome = await run(script.pipeline, ctx=ctx)
    assert isinstance(outcome, expected)
    if isinstance(outcome, Deferred):
        assert outcome.probe_failed
    else:
        assert probe == outcome.failure


async def test_a_compensation_is_deferred_twice_as_long_and_then_fails() -> None:
    script = Script(undoable="a", fails={"b": PermanentError("no"), "undo a": OPEN})
    kept, one = checkpoints_of(script.pipeline), caller()
    ctx = context(script.pipeline, caller=one)
    for deferrals in (2_000, 3_999):
        one.counts.breaker_deferrals = deferrals
        assert isinstance(await run(script.pipeline, kept, ctx=ctx), Deferred)
    one.counts.breaker_deferrals = 4_000
    letter = await run(script.pipeline, kept, ctx=ctx)
    dead(letter, CompensationResult.FAILED)
    assert ("a",) == letter.uncompensated_stages


def unconnected(dependency: str = "bank") -> TransientError:
    return TransientError("refused", sent=False, dependency=dependency)


@pytest.mark.parametrize(
    ("waited_s", "end"), [(0.0, Deferred), (3_599.0, Deferred), (3_600.0, Retry)]
)
async def test_a_chunk_that_cannot_connect_spends_no_attempt_for_an_hour(
    waited_s: float, end: type
) -> None:
    script, one = Script(pivot="c", fails={"b": unconnected()}), caller()
    one.counts.breaker_since = NOW - waited_s if waited_s else 0.0
    outcome = await run(script.pipeline, ctx=context(script.pipeline, caller=one))
    assert isinstance(outcome, end)


async def test_a_chunk_that_alone_cannot_connect_spends_its_attempts() -> None:
    script = Script(fails={"b": unconnected("")})
    assert isinstance(await run(script.pipeline), Retry)
    assert isinstance(await run(script.pipeline, attempt=3), DeadLettered)


async def test_a_pivot_that_was_not_connected_was_not_tried() -> None:
    assert (await deferred(Script(pivot="c", fails={"c": unconnected()}))).pivot_untried


@pytest.mark.parametrize(("waited_s", "waits"), [(7_199.0, True), (7_200.0, False)])
async def test_a_compensation_waits_for_a_connection_too(
    waited_s: float, *, waits: bool
) -> None:
    script, one = Script(undoable="a", fails={"b": PermanentError("no")}), caller()
    script.fails["undo a"] = unconnected()
    one.counts.breaker_since = NOW - waited_s
    outcome = await run(script.pipeline, ctx=context(script.pipeline, caller=one))
    assert isinstance(outcome, Deferred if waits else DeadLettered)


async def test_another_failure_is_not_deferred() -> None:
    script = Script(fails={"b": TransientError("not now")})
    assert isinstance(await run(script.pipeline), Retry)


async def test_a_pivot_that_was_refused_was_not_tried() -> None:
    assert (await deferred(Script(pivot="c", fails={"c": OPEN}))).pivot_untried
    assert not (await deferred(Script(pivot="c", fails={"b": OPEN}))).pivot_untried
    assert not (await deferred(Script(pivot="c", fails={"d": OPEN}))).pivot_untried


@pytest.mark.parametrize("stage", ["b", "c"])
@pytest.mark.parametrize("count", ["repeated", "failed"])
async def test_a_pivot_was_tried_if_any_call_of_it_failed(
    stage: str, count: str
) -> None:
    one = caller()

    async def step(_: Any) -> None:
        setattr(one.counts, count, 1)
        if stage == "c":
            raise OPEN

    script = Script(pivot="c", fails={"c": OPEN} | {stage: step})
    outcome = await deferred(script, ctx=context(script.pipeline, caller=one))
    assert (stage == "b") is outcome.pivot_untried


async def test_a_pivot_that_only_the_breaker_refused_can_still_say_no() -> None:
    kept: dict[str, Any] = {"completed": {"a": '"1"', "b": '"2"'}, "reached_stage": "c"}
    script = Script(pivot="c", fails={"c": PermanentError("no")})
    one = caller()
    one.counts.untried = "c"
    ctx = context(script.pipeline, caller=one)
    at = checkpoints_of(script.pipeline, **kept)
    assert dead(await run(script.pipeline, at, ctx=ctx), CompensationResult.COMPENSATED)


async def test_a_pivot_that_an_earlier_claim_tried_was_tried() -> None:
    kept: dict[str, Any] = {"completed": {"a": '"1"', "b": '"2"'}, "reached_stage": "c"}
    script = Script(pivot="c", fails={"c": OPEN})
    at = checkpoints_of(script.pipeline, **kept)
    outcome = await run(script.pipeline, at)
    assert isinstance(outcome, Deferred)
    assert not outcome.pivot_untried


async def test_a_compensation_is_deferred_and_continues() -> None:
    script = Script(fails={"d": PermanentError("no"), "undo b": OPEN})
    kept = checkpoints_of(script.pipeline)
    outcome = await run(script.pipeline, kept, attempt=3)
    assert isinstance(outcome, Deferred)
    assert "bank" == outcome.blocked_on
    assert ["undo d", "undo c", "undo b"] == script.compensated()
    del script.fails["undo b"]
    assert dead(
        await run(script.pipeline, kept, attempt=3), CompensationResult.COMPENSATED
    )
    assert ["undo b", "undo a"] == script.compensated()[3:]
