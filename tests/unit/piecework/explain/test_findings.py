"""The findings of jobs that real workers left in each state, in virtual time.

`make drill` runs all exercises; this is one of each kind, and what a drill cannot do.

All kinds are in one file, because a test requires an exercise of each kind.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from piecework.domain.budget import Cap
from piecework.domain.keys import JOIN_CHUNK, dead_letter_sk
from piecework.domain.moments import MICROS, iso, moment
from piecework.domain.outcome import ANSWER
from piecework.domain.rows import WorkerRow
from piecework.domain.states import ChunkStatus
from piecework.domain.webhook import Webhook
from piecework.explain.causes import find
from piecework.explain.findings import FINDINGS
from piecework.explain.finish_time import ChunkTimes
from piecework.explain.situation import OpenLetters, Situation, read_situation, spread
from piecework.explain.waiting import wait_of
from piecework.resilience.budget import (
    DAY_RESERVED_CODE,
    DAY_S,
    RESERVED_CODE,
    BudgetKey,
    key_of_job,
    key_of_tenant,
)
from piecework.resilience.limits import Quota
from piecework.resilience.pace import Pace
from piecework.resilience.retry import BUDGET_CODE
from piecework.store.breakers import FleetRecord
from piecework_orchestrator.reading.chunk_documents import read_chunks
from piecework_orchestrator.reading.job_documents import Document
from verification.drill.__main__ import wrong
from verification.drill.exercises import (
    CHANGED,
    EXERCISES,
    PAUSED,
    SINGLE,
    Act,
    Exercise,
    deferred,
    ends,
    in_order,
    message_lost,
    runs,
)
from verification.drill.fleet import REF, Fleet, exercise
from verification.drill.large import large

#: Pairs of causes that are exercised besides each single one.
PAIRS = (
    "busy, retry",
    "no worker, breaker",
    "retry, breaker",
    "submit died, no worker",
)
#: Findings that no exercise causes.
NOT_EXERCISED = {"limit.used", "fleet.unreadable", "webhook.failed"}
NOT_EXERCISED |= {"dead_letters.unread", "call.key.unstable"}
#: `tests/simulation/test_effects_left.py` has it: it needs a killed worker.
NOT_EXERCISED |= {"effects.in_flight"}
#: `tests/scenarios/test_mapping.py` has them: they need two jobs.
NOT_EXERCISED |= {"child.waiting", "parent.paused", "parent.waiting"}
#: `tests/scenarios/test_batches.py` has it: it needs a provider with batches.
NOT_EXERCISED |= {"batch.waiting"}


@pytest.mark.parametrize(
    "each",
    [e for e in EXERCISES if e in SINGLE or e.name in PAIRS],
    ids=lambda each: each.name,
)
def test_the_first_finding_names_the_cause(each: Exercise) -> None:
    assert not wrong(each)


def test_every_kind_of_finding_has_an_exercise() -> None:
    exercised = {code for each in EXERCISES for code in (each.first, each.also)}
    assert FINDINGS.keys() - NOT_EXERCISED == exercised - {""}


def situation_of(*hows: str) -> Situation:
    """Return the situation of a job whose chunks wait for what their orders say."""

    return situation_after(lambda fleet: runs(fleet, *hows))


def situation_after(act: Act) -> Situation:
    """Return the situation of a job after an exercise."""

    async def read(fleet: Fleet) -> Situation:
        await act(fleet)
        return await read_situation(fleet.rt, await fleet.job())

    return exercise(read)


def test_a_finding_has_its_numbers_its_times_and_its_command() -> None:
    situation = situation_of("breaker", "breaker", "breaker", "refused")
    first, second = (finding.document for finding in find(situation))

    assert first["chunks"] == 3
    assert first["exact"]
    assert first["since"] < first["until"]
    assert "bank" in first["message"]
    assert first["next"] == "piecework explain-code tool.http.503_unavailable"
    assert (second["code"], second["chunks"]) == ("dead_letters.open", 1)


def test_a_stage_that_runs_again_says_how_often_and_why_it_failed() -> None:
    whole = named("stalled")
    _, again = find(whole)
    assert again.message == (
        "Chunks run stage work again after 1 failed attempt, "
        "the last with runtime.stage.stalled."
    )
    assert again.command == "piecework explain-code runtime.stage.stalled"
    assert again.chunks == 2
    assert again.since
    # It has a stage more than before its last failure, or failed before a redrive.
    for more in ({"started_at": iso(whole.now)}, {"gen": 2}):
        chunks = [replace(c, item={**c.item, **more}) for c in whole.open.chunks]
        passed = replace(whole, open=replace(whole.open, chunks=chunks))
        assert codes_of(passed) == ["job.progressing"]


def test_a_stopped_chunk_that_is_due_again_still_waits_for_another_version() -> None:
    waits = situation_after(lambda fleet: deferred(fleet, *CHANGED))
    [chunk, *_] = [c for c in waits.open.chunks if c.retry_at]
    due = replace(waits, now=moment(chunk.retry_at) + 1.0)
    for situation in (waits, due):
        assert "version.safe_needed" in codes_of(situation)
    assert "job.progressing" not in codes_of(due)


def test_without_rights_on_the_fleet_the_chunks_are_still_explained() -> None:
    whole = situation_of("limit", "limit", "limit")
    blind = replace(whole, fleet=None, workers=None)
    codes = [finding.kind.code for finding in find(blind)]

    assert codes == ["limit.reached", "fleet.unreadable"]


def test_a_used_limit_is_a_note_beside_the_chunks_that_run() -> None:
    whole = situation_of("slow", "limit")
    assert isinstance(whole.fleet, FleetRecord)
    assert codes_of(whole) == ["job.progressing", "limit.used"]
    # Another pipeline uses the limit.
    others = [
        WorkerRow({**each.item, "dependencies": []}) for each in whole.workers or ()
    ]
    assert codes_of(replace(whole, workers=others)) == ["job.progressing"]


def test_a_failed_webhook_is_a_note_of_the_jobs_of_its_pipeline() -> None:
    whole = situation_of("slow")
    failed = {"failed_at": "2026-11-24T02:00:00Z", "last_error": "HTTP 503"}
    hooks = [
        Webhook({"sk": name, "pipeline": pipeline, **facts})
        for name, pipeline, facts in (
            ("ops", "", failed),
            ("other", "another", failed),
            ("fine", "", {}),
        )
    ]
    told = find(replace(whole, webhooks=hooks))
    assert [finding.kind.code for finding in told] == [
        "job.progressing",
        "webhook.failed",
    ]
    assert told[1].command == "piecework webhooks show ops"


def test_a_paused_dependency_has_its_reason_and_no_end() -> None:
    whole = situation_after(lambda fleet: deferred(fleet, *PAUSED, paused=True))
    (first,) = (finding.document for finding in find(whole))
    assert first["message"] == "Dependency bank is paused: dear (by operator)."
    assert first["next"] == "piecework limits resume bank"
    assert "until" not in first
    blind = find(replace(whole, fleet=None))[0]
    assert (blind.kind.code, blind.message) == (
        "dependency.paused",
        "Dependency bank is paused.",
    )


def test_a_renewal_after_the_report_was_due_outweighs_the_missing_report() -> None:
    whole = situation_of("slow")
    (chunk,), (worker,) = whole.open.chunks, whole.workers or ()
    times = {"reported_at": iso(whole.now - 40), "due_at": iso(whole.now - 15)}
    overdue = WorkerRow({**worker.item, **times, "lease_ms": 60_000})
    begun = ChunkTimes(1, claimed=[whole.now - 30])

    def found(renewed_s: float) -> list[tuple[str, str]]:
        until = iso(whole.now - renewed_s + overdue.lease_s)
        renewed = replace(chunk, item={**chunk.item, "claim_expires_at": until})
        open_ = replace(whole.open, chunks=[renewed], times=begun)
        findings = find(replace(whole, open=open_, workers=[overdue]))
        return [(finding.kind.code, finding.since) for finding in findings]

    assert [code for code, _ in found(14)] == ["job.progressing"]
    # The worker reported 40 s ago, but it renewed a lease after that.
    assert found(16)[0] == ("workers.none", iso(whole.now - 16))
    assert [code for code, _ in found(50)] == ["workers.none", "lease.expiring"]
    assert found(50)[0][1] == iso(whole.now - 30)


def named(name: str) -> Situation:
    """Return the situation of a job after an exercise."""
    return situation_after(next(each.act for each in SINGLE if each.name == name))


def codes_of(whole: Situation, **facts: str) -> list[str]:
    """Return the codes of the findings about a job with these facts."""
    job = replace(whole.job, item={**whole.job.item, **facts})
    return [finding.kind.code for finding in find(replace(whole, job=job))]


@pytest.mark.parametrize("name", ["busy", "message lost"])
def test_a_job_that_moves_or_was_just_resumed_is_not_held_up(name: str) -> None:
    whole = named(name)
    assert "job.progressing" not in codes_of(whole)
    if name == "message lost":
        resumed = iso(whole.now - 5)
        assert codes_of(whole, resumed_at=resumed) == ["job.progressing"]
    # Its last chunk ended, and its worker has not claimed the next one.
    open_ = replace(whole.open, times=ChunkTimes(1, [(whole.now - 60, whole.now - 5)]))
    assert codes_of(replace(whole, open=open_)) == ["job.progressing"]
    # Its chunks may run in groups that are not in the sample.
    sample = replace(whole.open, share=0.5)
    assert "job.progressing" not in codes_of(replace(whole, open=sample))
    begun = replace(sample, full_groups=[0])
    assert codes_of(replace(whole, open=begun)) == ["job.progressing"]


def test_chunks_of_a_newer_version_in_a_sample_are_an_estimate() -> None:
    whole = named("healthy")
    open_ = replace(whole.open, chunks=[], newer=1, share=0.5)
    (first,) = find(replace(whole, open=open_))
    assert (first.kind.code, first.chunks, first.exact) == (
        "version.newer_needed",
        2,
        False,
    )


def test_an_expired_lease_has_no_end_ahead() -> None:
    whole = named("no worker, ask")
    expired = {"claim_expires_at": iso(whole.now - 5)}
    chunks = [
        replace(
            each,
            status=ChunkStatus.RUNNING,
            item={**each.item, **expired, "claimed_by": owner},
        )
        for each, owner in zip(whole.open.chunks, "ab", strict=False)
    ]
    found = find(replace(whole, open=replace(whole.open, chunks=chunks)))[1]
    assert found.message == "Workers a, b no longer renew their leases."
    assert "until" not in found.document


def test_a_join_needs_no_slot_of_its_tenant() -> None:
    whole = named("tenant capped")
    (chunk, *_) = whole.open.chunks
    join = replace(chunk, ref=whole.job.ref.chunk(JOIN_CHUNK))
    facts = {"status": "FINALIZING", "finalizing_at": iso(whole.now)}
    joining = replace(whole, open=replace(whole.open, chunks=[]), join=join)
    assert codes_of(joining, **facts) == ["job.progressing"]


def lacking(*later: str, claimed_s: float = 0.0, **facts: str) -> Situation:
    """Return a join that the daily budget stopped; `later`: how its next claims ended.

    `claimed_s`: how long ago it was claimed again; 0: it waits.
    """
    whole = named("join waits")
    assert whole.join is not None
    ends = [{"code": DAY_RESERVED_CODE}, *({"end": each} for each in later)]
    facts |= {"error_code": DAY_RESERVED_CODE, "claimed_at": iso(whole.now - claimed_s)}
    facts["claim_expires_at"] = iso(whole.now + whole.lease_s)
    item = {**whole.join.item, **facts, "history": ends}
    status = ChunkStatus.RUNNING if claimed_s else ChunkStatus.WAITING
    return replace(whole, join=replace(whole.join, status=status, item=item))


def test_a_join_lacks_its_budget_until_it_waits_for_another_thing() -> None:
    for here in (lacking(), lacking(claimed_s=60.0)):
        assert codes_of(here) == ["tenant.budget_spent"]
    asks = lacking("asking", blocked_on=ANSWER, question="approval")
    for here in (asks, replace(asks, workers=[])):
        assert codes_of(here) == ["answer.waiting"]
    # No call waits for room as long as that, so the budget was raised.
    for here in (lacking(claimed_s=900.0), lacking("asking", claimed_s=60.0)):
        assert codes_of(here) == ["job.progressing"]


@pytest.mark.parametrize(
    ("code", "key", "codes"),
    [
        (RESERVED_CODE, key_of_job(REF), ["job.budget_spent"] * 2),
        (
            DAY_RESERVED_CODE,
            key_of_tenant(REF.tenant),
            ["join.waiting", "tenant.budget_spent"],
        ),
    ],
)
def test_a_join_waits_for_its_next_claim_once_its_budget_was_set_or_began_anew(
    code: str, key: BudgetKey, codes: list[str]
) -> None:
    async def act(fleet: Fleet) -> list[str]:
        rt, ref = fleet.rt, REF.chunk(JOIN_CHUNK)
        await ends(fleet, "quick", "join retry")
        found = []
        for ended_s in (DAY_S, 0, 1):
            end = {"code": code, "to": iso(rt.clock() - ended_s)}
            write = {"update": "SET history = :h", "values": {"h": [end]}}
            await rt.table.update(
                rt.table.item_write("Update", ref.pk, ref.sk, **write)
            )
            found.append((await fleet.explain())[0]["code"])
            if ended_s == 0:
                await rt.budgets.set_cap(key, Cap(9), "me")
        return found

    assert exercise(act) == [*codes, "join.waiting"]


def test_a_spent_budget_is_raised_in_each_unit_that_it_may_have() -> None:
    whole, both = lacking(), "--daily-usd N --daily-tokens N"
    assert whole.fleet is not None
    caps = {Cap(9): "--daily-tokens N", Cap(None, 9): "--daily-usd N", Cap(9, 9): both}
    for cap, options in {None: both, **caps}.items():
        fleet = cap and replace(whole.fleet, daily_caps={"default": cap})
        first = find(replace(whole, fleet=fleet))[0]
        assert first.command == f"piecework budgets set default {options}"


def test_closed_letters_do_not_hide_an_open_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("piecework.explain.situation.MAX_LETTERS", 1)

    async def act(fleet: Fleet) -> list[str]:
        await ends(fleet, "quick", "refused")
        letters, found = fleet.rt.dead_letters, []
        for gen in range(14):
            found += [(await fleet.explain())[0]["code"]]
            key, item = (REF.pk, dead_letter_sk(0, gen)), {"state": "REDRIVEN"}
            await letters.put(letters.item_write("Put", *key, item=item))
        return found

    assert exercise(act) == [*["dead_letters.left"] * 13, "dead_letters.unread"]
    letters = OpenLetters(2, complete=False)
    first = find(replace(named("ended"), letters=letters))[0]
    assert first.message[:34] == "At least 2 dead letters are open. "


def test_a_damaged_dead_letter_stops_its_key() -> None:
    async def act(fleet: Fleet) -> tuple[Situation, list[Document]]:
        await in_order(fleet, "refused", "quick")
        job = await fleet.job()
        letters, key = fleet.rt.dead_letters, (job.ref.pk, dead_letter_sk(0, 1))
        await letters.update(
            letters.item_write("Update", *key, update="REMOVE error_code")
        )
        shown = [each async for each in read_chunks(fleet.rt, job, None)]
        return await read_situation(fleet.rt, job), shown

    whole, chunks = exercise(act)
    assert codes_of(whole) == ["order.stopped", "dead_letters.open"]
    assert find(whole)[1].message.endswith("open. Damaged ones among them: 1.")
    assert chunks[1]["wait"]["reason"] == "order_stopped"


def test_each_waiting_chunk_says_for_what_it_waits() -> None:
    async def act(fleet: Fleet) -> list[Document]:
        await runs(fleet, "breaker", "breaker", "limit", "limit", "retry", "slow")
        return [each async for each in read_chunks(fleet.rt, await fleet.job(), None)]

    waits = [chunk.get("wait", {}) for chunk in exercise(act)]
    reasons = [wait.get("reason") for wait in waits]

    assert reasons[:2] == ["breaker", "breaker"]
    assert sorted(map(str, reasons[2:4])) == ["None", "quota"]
    assert reasons[4:] == ["retry", None]
    assert waits[4]["text"] == f"retry {waits[4]['until'][11:16]}"


def test_a_refusal_of_the_dependency_is_a_rate_limit_and_not_our_quota() -> None:
    whole = situation_of("retry", "retry")
    code = {"error_code": "llm.http.429_rate_limited"}
    chunks = [replace(each, item={**each.item, **code}) for each in whole.open.chunks]
    [wait, _] = [wait_of(each, whole.now) for each in chunks]
    refused = replace(whole.open, chunks=chunks)
    first = find(replace(whole, open=refused))[0]

    assert (first.kind.code, first.chunks) == ("limit.reached", 2)
    assert first.command == "piecework limits list"
    quota = Quota(pace=Pace(paused_until=round((whole.now + 60) * MICROS)))
    assert whole.fleet is not None
    fleet = replace(whole.fleet, quotas={"quoter": quota, "fax": Quota()})
    first = find(replace(whole, open=refused, fleet=fleet))[0]
    assert "Dependency quoter refused calls with llm" in first.message
    assert first.command[:27] == "piecework limits set quoter"
    assert wait is not None
    assert wait.text == "rate limit"


def test_a_spent_retry_budget_names_its_dependency() -> None:
    whole = situation_of("retry")
    facts = {"error_code": BUDGET_CODE, "blocked_on": "quoter"}
    chunks = [replace(each, item={**each.item, **facts}) for each in whole.open.chunks]
    first = find(replace(whole, open=replace(whole.open, chunks=chunks)))[0]
    assert f"next attempt to call quoter after {BUDGET_CODE}" in first.message


def test_a_large_job_is_explained_from_a_sample_in_few_requests() -> None:
    measured = large(10_000)
    [finding] = measured.findings

    assert measured.requests <= 20
    assert (finding["code"], finding["exact"]) == ("retry.waiting", False)
    assert finding["chunks"] == pytest.approx(3_856, rel=0.05)
    assert measured.finish["p50_s"] == pytest.approx(38.56, rel=0.15)


def test_a_sample_has_both_ends() -> None:
    assert spread(range(100, 200), 4) == [100, 133, 166, 199]
    assert spread([1, 2], 4) == [1, 2]


def test_an_idle_worker_is_not_missing_because_others_receive_its_messages() -> None:
    """A worker of another pipeline on the queue gives the message back each time."""
    whole = situation_after(message_lost)
    (worker,) = whole.workers or ()
    silent = {"reported_at": iso(whole.now - 100), "due_at": iso(whole.now + 5)}
    idle = WorkerRow({**worker.item, **silent})
    other = WorkerRow({**idle.item, "worker": "w9", "pipelines": ["another"]})

    def first_of(*workers: WorkerRow) -> str:
        return find(replace(whole, workers=workers))[0].kind.code

    assert "workers.none" == first_of(idle)
    assert "chunks.unclaimed" == first_of(idle, other)
    assert "workers.pipeline_missing" == first_of(other)
