"""What is written with the end of a claim."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.usage import ClaimUsage
from piecework.domain import keys
from piecework.domain.claim import Claim
from piecework.domain.outcome import Cancelled, Retry, Succeeded
from piecework.domain.protocols import ClaimLostError
from piecework.pipelines import Pipeline, Stage
from piecework.store.settlements import Calls
from piecework_worker import settle as settling
from piecework_worker.settle import job_end, result_sha256, resume_at, settle
from tests.unit.piecework.fakes import Clause, Log, checkpoints_of, envelope
from tests.unit.piecework.store.tables import REF, claim

JOB: Any = SimpleNamespace(
    ref=REF.of, chunks=3, gen=1, tolerated_chunks=0, has_ladder=False
)


async def first(_: Any) -> None: ...


async def second(_: Any) -> None: ...


STAGES = [Stage(first), Stage(second)]
EARLY = Pipeline(name="early", payload=Clause, stages=STAGES, result=first)
LATE = Pipeline(name="late", payload=Clause, stages=STAGES)


class Journal:
    kept: bool | None = None
    late = False

    async def close(self, *, keep: bool, patient: bool) -> None:
        self.kept, self.patient = keep, patient

    async def finish_rest(self, *, patient: bool) -> None:
        assert self.kept is None, "a settlement needs the effects first"

    async def write_late(self) -> None:
        self.late = True  # the bill has it: see tests/scenarios/test_costs.py


def chunk_run(
    outcome: Any = None,
    pipeline: Pipeline = LATE,
    owned: Claim | None = None,
    **kept: Any,
) -> Any:
    checkpoints = checkpoints_of(pipeline)
    for name, value in kept.items():
        setattr(checkpoints, name, value)
    counts = SimpleNamespace(made=1, cached=2, replayed=0, retried=0)
    journal = Journal()
    return SimpleNamespace(
        claim=owned or claim(),
        outcome=outcome,
        calls_after_cancel=None,
        pipeline=pipeline,
        checkpoints=checkpoints,
        journal=journal,
        ledger=journal,
        write_late=journal.write_late,
        usage=ClaimUsage(),
        error_history=[],
        snapshot=None,
        certificate=None,
        ctx=SimpleNamespace(
            log=Log(),
            caller=SimpleNamespace(
                counts=counts,
                in_flight=SimpleNamespace(acquired_at=0.0),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [(Succeeded("1"), False), (Cancelled("first"), True)],
)
@pytest.mark.parametrize("owned", [True, False])
async def test_a_worker_that_lost_the_claim_settles_nothing(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, kept: Any, owned: Any
) -> None:
    async def write(*_: Any) -> Any:
        return owned

    monkeypatch.setattr(settling, "write", write)
    run, services = chunk_run(outcome), SimpleNamespace()
    settled = settle(run, JOB, services)  # type: ignore[arg-type]
    if owned:
        assert await settled is None
    else:
        with pytest.raises(ClaimLostError):
            await settled
    assert owned is bool(run.ctx.log.said)
    assert kept is run.journal.kept
    assert owned is not run.journal.late


async def test_a_retried_chunk_keeps_its_paid_results() -> None:
    class Settlements:
        async def schedule_retry(self, _: Any, retry: Retry, *, calls: Calls) -> bool:
            return (retry.delay, calls) == (9.0, Calls(1, 3, 2))

    run, services = chunk_run(Retry(envelope(), 9.0)), SimpleNamespace()
    run.calls_after_cancel, services.settlements = 3, Settlements()
    assert await settle(run, JOB, services) == 9.0  # type: ignore[arg-type]
    assert run.journal.kept is True


def test_the_result_is_the_value_of_the_result_stage() -> None:
    done = {"first": '"one"'}
    early = result_sha256(chunk_run(None, EARLY, completed=done), '"two"')
    late = result_sha256(chunk_run(None, LATE, completed=done), '"two"')
    assert early == keys.sha256(b'"one"')
    assert late == keys.sha256(b'"two"')


@pytest.mark.parametrize(
    ("completed", "undone", "stage"),
    [
        ({}, {}, "first"),
        ({"first": "1"}, {}, "second"),
        ({"first": "1"}, {"first": None}, "first"),
        ({"first": "1", "second": "2"}, {}, "second"),
        ({"first": "1", "second": "2"}, {"first": None}, "first"),
    ],
)
def test_a_redrive_resumes_at_the_first_incomplete_or_compensated_stage(
    completed: Any, undone: Any, stage: str
) -> None:
    assert stage == resume_at(chunk_run(completed=completed, compensated=undone))


async def test_the_end_of_a_chunk_is_not_that_of_its_job() -> None:
    services: Any = None  # not asked
    assert await job_end(chunk_run(), JOB, services, join_error="") == []


@pytest.mark.parametrize(("gen", "reads"), [(1, 0), (2, 1)])
async def test_the_end_of_the_join_is_that_of_the_job_in_its_generation(
    monkeypatch: pytest.MonkeyPatch, gen: int, reads: int
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(settling, "certify", lambda *a: SimpleNamespace(status=a[3]))
    monkeypatch.setattr(settling, "take_snapshot", answer(None))
    monkeypatch.setattr(settling, "store_certificate", answer({"certificate": "key"}))
    now: Any = SimpleNamespace(
        ref=REF.of, chunks=3, gen=gen, tolerated_chunks=0, has_ladder=False
    )
    asked: list[Any] = []

    async def read(ref: Any) -> Any:
        asked.append(ref)
        return now

    async def ending(*facts: Any) -> list[str]:
        said.append(facts)
        return ["action"]

    rt = SimpleNamespace(
        jobs=SimpleNamespace(read=read),
        table=None,
        clock=lambda: 0.0,
        transitions=SimpleNamespace(ending=ending),
    )
    owned = claim(ref=REF.of.chunk(keys.JOIN_CHUNK), gen=gen)
    services: Any = SimpleNamespace(rt=rt)
    join = chunk_run(owned=owned)
    assert await job_end(join, JOB, services, join_error="e") == ["action"]
    assert join.certificate.status == "e"
    assert said == [(now, "e", {"certificate": "key"})]
    assert [REF.of] * reads == asked


def answer(value: Any) -> Any:
    async def give(*_: Any) -> Any:
        return value

    return give
