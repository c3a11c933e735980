"""The rows that each settlement of a claim writes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.outcome import (
    NO_STAGE_CODE,
    STORE,
    WORKER,
    Asking,
    Deferred,
    Paused,
    Released,
    Retry,
    Sleeping,
)
from piecework.domain.protocols import ClaimLostError
from piecework.domain.rows import UNIT_BYTES, EffectRow, item_bytes
from piecework.errors import PermanentError
from piecework.questions import Approval, declare
from piecework.resilience.retry import BUDGET_CODE, EARLY_CODE
from piecework.store.checkpoints import Work, read_work
from piecework.store.results import result_row
from piecework.store.settlements import Calls
from tests.store.conftest import NOW, Store
from tests.store.writes import (
    FAILURE,
    REFUSED,
    Write,
    begin_compensation,
    cancel,
    complete_long,
    complete_null,
    complete_value,
    dead_letter,
    defer,
    named,
    pause,
    record_compensation,
    release,
    rows,
    schedule_retry,
    succeed,
)

EXHAUSTED = FAILURE.model_copy(update={"code": BUDGET_CODE})
LACKED = FAILURE.model_copy(update={"code": NO_STAGE_CODE})
EARLY = FAILURE.model_copy(update={"code": EARLY_CODE})


async def test_a_complete_stage_moves_the_cursor_and_keeps_its_value(
    store: Store,
) -> None:
    await complete_value(store, await store.running())
    item = await store.item()
    assert (item["stage"], item["started_at"]) == ("second", iso(NOW))
    assert (item["claimed_by"], item["pk"]) == ("worker", store.chunk.pk)
    entry = item["stages"]["first"]
    assert (entry["value"], entry["gen"], entry["fence"]) == ('"value"', 2, 4)
    assert await rows(store) == {}


@pytest.mark.parametrize("size", [100, 2_000, 70_000])
async def test_a_value_is_found_again_wherever_it_is_stored(
    store: Store, size: int
) -> None:
    claim, value = await store.running(), json.dumps("x" * size)
    await store.checkpoints(claim).complete(0, value, "second")
    work = await read_work(store.table, store.chunk)
    later = store.checkpoints(await store.running(gen=2, fence=5))
    await later.load(work)
    assert later.completed == {"first": value}
    assert bool(await rows(store)) is (size == 2_000)
    assert item_bytes(await store.item()) <= UNIT_BYTES


async def test_a_value_that_the_chunk_does_not_name_does_not_count(
    store: Store,
) -> None:
    late = await store.running()
    await store.running(fence=5, claim_token="another")
    with pytest.raises(ClaimLostError):
        await complete_long(store, late)
    assert [*await rows(store)] == ["STAGE#first#0004"]
    assert (await read_work(store.table, store.chunk)).stages == []


def test_a_result_of_an_earlier_stage_names_the_code_that_made_it(
    store: Store,
) -> None:
    stages = {"first": {"fence": 1, "code_version": "one"}}
    item = {"status": "SUCCEEDED", "gen": 1, "value": "1", "code_version": "two"}
    for told, made_by in ({}, "two"), ({"result_stage": "first"}, "one"):
        chunk = Chunk.read(store.chunk, item | told | {"stages": stages})
        row = result_row(chunk, None)
        assert row is not None
        assert ("1", made_by) == (row.item["value"], row.code_version)


async def test_a_named_value_that_is_gone_is_not_read_as_null(store: Store) -> None:
    claim = await store.running()
    await complete_long(store, claim)
    sk = keys.stage_sk(3, "first", 4)
    await store.table.delete(store.table.item_write("Delete", store.chunk.pk, sk))
    work = await read_work(store.table, store.chunk)
    with pytest.raises(PermanentError, match="'first'") as raised:
        await store.checkpoints(claim).load(work)
    assert raised.value.code == "runtime.record.unreadable"


async def test_a_stage_that_returns_nothing_stores_when_and_where_it_ran(
    store: Store,
) -> None:
    claim = await store.running(gen=1, claimed_at="2023-11-14T22:13:00.000Z")
    await complete_null(store, claim)
    [row] = (await read_work(store.table, store.chunk)).stages
    facts = ("started_at", "worker", "attempt")
    assert not row.has_value
    assert row.pick(facts) == {
        "started_at": "2023-11-14T22:13:00.000Z",
        "worker": claim.worker,
        "attempt": claim.attempt,
    }


async def test_the_compensation_is_stored(store: Store) -> None:
    claim = await store.running()
    await begin_compensation(store, claim)
    await record_compensation(store, claim)
    await store.checkpoints(claim).record_compensation("second", FAILURE)
    item = await store.item()
    assert (item["direction"], item["error_code"]) == (
        "compensating",
        "llm.content.filtered",
    )
    later = store.checkpoints(claim)
    await later.load(Work(await rows(store), None))
    assert later.failure == FAILURE
    assert later.compensated == {"first": None, "second": FAILURE}


async def test_the_compensation_of_an_earlier_generation_is_not_read(
    store: Store,
) -> None:
    await begin_compensation(store, await store.running())
    await record_compensation(store, await store.running())
    later = store.checkpoints(await store.running(gen=3))
    await later.load(Work(await rows(store), None))
    assert later.failure is None
    assert later.compensated == {}


async def test_a_compensated_stage_compensates_any_number_of_effects(
    store: Store,
) -> None:
    claim = await store.running()
    kept = store.checkpoints(claim)
    for n in range(120):
        await store.put(store.chunk.pk, keys.effect_sk(3, f"{n:03d}"), state="DONE")
    stages = ["first"] * 110 + ["second"] * 10
    kept.ledger.load(
        EffectRow({"effect_key": f"{n:03d}", "stage": stage, "state": "DONE"})
        for n, stage in enumerate(stages)
    )
    await kept.record_compensation("first", None)
    found = [row["state"] for n, row in (await rows(store)).items() if "EFF" in n]
    assert found == ["COMPENSATED"] * 110 + ["DONE"] * 10


async def test_a_failed_compensation_leaves_its_effects(store: Store) -> None:
    claim = await store.running()
    kept = store.checkpoints(claim)
    sk = keys.effect_sk(3, "key")
    await store.put(store.chunk.pk, sk, state="DONE")
    kept.ledger.load(
        [EffectRow({"effect_key": "key", "stage": "first", "state": "DONE"})]
    )
    await kept.record_compensation("first", FAILURE)
    assert (await store.item(store.chunk.pk, sk))["state"] == "DONE"


async def test_a_missing_effect_refuses_its_compensation(store: Store) -> None:
    claim = await store.running()
    kept = store.checkpoints(claim)
    kept.ledger.load(
        [EffectRow({"effect_key": "key", "stage": "first", "state": "DONE"})]
    )
    with pytest.raises(ClaimLostError):
        await kept.record_compensation("first", None)
    assert await rows(store) == {}


LEFT: dict[Write, dict[str, Any]] = {
    succeed: {"status": "SUCCEEDED", "result_sha256": "ab", "ended_at": iso(NOW)},
    schedule_retry: {
        "status": "WAITING",
        "retry_at": iso(NOW + 30),
        "redispatch_at": iso(NOW + 120),
        "error_code": "llm.content.filtered",
        "attempts": 2,
    },
    defer: {
        "status": "WAITING",
        "retry_at": iso(NOW + 30),
        "redispatch_at": iso(NOW + 120),
        "error_code": "runtime.breaker.open",
        "blocked_on": "model",
        "attempts": 1,
        "deferrals": 1,
        "breaker_deferrals": 1,
        "breaker_since": iso(NOW),
        "failed_probes": None,
        "pivot_untried_fence": None,
    },
    pause: {
        "status": "WAITING",
        "retry_at": iso(NOW),
        "attempts": 1,
        "blocked_on": "pause",
        "pivot_untried_fence": 4,
    },
    release: {"status": "WAITING", "retry_at": iso(NOW), "attempts": 1, "releases": 1},
    dead_letter: {
        "status": "DEAD",
        "error_code": "llm.content.filtered",
        "compensation": "COMPENSATED",
        "resume_at": "first",
        "ended_at": iso(NOW),
    },
    cancel: {"status": "CANCELLED", "ended_at": iso(NOW)},
}


@named(list(LEFT))
async def test_an_end_says_what_became_of_the_chunk_and_lets_it_go(
    store: Store, write: Write
) -> None:
    before = {"redispatches": 3, "lease_released_at": iso(NOW)}
    claim = await store.running(redispatch_at=iso(NOW), **before)
    assert await write(store, claim) is True
    item = await store.item()
    assert (item["status"] == "WAITING") is before.keys().isdisjoint(item)
    assert LEFT[write] == {name: item.get(name) for name in LEFT[write]}
    assert "claimed_by" not in item
    assert "claim_expires_at" not in item
    assert ("redispatch_at" in item) is (item["status"] == "WAITING")


async def test_a_success_forgets_the_errors_before_it(store: Store) -> None:
    await succeed(store, await store.running(error_code="tool.http.timeout"))
    assert "error_code" not in await store.item()


async def test_calls_add_up_over_the_claims(store: Store) -> None:
    await schedule_retry(store, await store.running(calls=7))
    assert (await store.item())["calls"] == 12


async def test_a_chunk_that_was_released_too_often_spends_its_attempt(
    store: Store,
) -> None:
    await release(store, await store.running(releases=9))
    assert (await store.item())["attempts"] == 1
    await release(store, await store.running(releases=10))
    item = await store.item()
    assert (item["attempts"], item["releases"]) == (2, 11)


@pytest.mark.parametrize(("releases", "recoveries"), [(9, 2), (10, 3)])
async def test_a_compensation_that_a_stop_interrupts_is_released_as_often(
    store: Store, releases: int, recoveries: int
) -> None:
    claim = await store.running(attempts=3, recoveries=3, releases=releases)
    await release(store, replace(claim, is_recovery=True))
    item = await store.item()
    assert (item["attempts"], item["recoveries"]) == (3, recoveries)
    assert item["releases"] == releases + 1


async def test_a_chunk_that_waits_for_a_dependency_never_pays_for_it(
    store: Store,
) -> None:
    await defer(store, await store.running(deferrals=1000, releases=1000))
    item = await store.item()
    assert (item["attempts"], item["deferrals"], item["releases"]) == (1, 1001, 1000)
    assert await rows(store) == {}


@pytest.mark.parametrize(
    ("known", "facts", "expected"),
    [
        ({}, {}, (iso(NOW), None)),
        ({"breaker_since": iso(NOW - 9)}, {}, (iso(NOW - 9), None)),
        ({"breaker_since": iso(NOW - 9)}, {"has_progress": True}, (iso(NOW), None)),
        ({"failed_probes": 1}, {"probe_failed": True}, (iso(NOW), 2)),
        ({"failed_probes": 1}, {}, (iso(NOW), 1)),
        ({}, {"failure": FAILURE, "blocked_on": STORE}, (None, None)),
        ({}, {"failure": FAILURE, "blocked_on": WORKER}, (None, None)),
        ({"budget_deferrals": 9}, {"failure": EXHAUSTED}, (None, None)),
        ({"stage_deferrals": 9}, {"failure": LACKED}, (None, None)),
        ({"early_deferrals": 9}, {"failure": EARLY}, (None, None)),
    ],
)
async def test_a_deferral_keeps_when_the_chunk_began_to_wait(
    store: Store,
    known: dict[str, Any],
    facts: dict[str, Any],
    expected: tuple[str | None, int | None],
) -> None:
    claim = await store.running(**known)
    deferred = replace(Deferred(REFUSED, 30.0, REFUSED.dependency), **facts)
    await store.settlements.defer(claim, deferred, calls=Calls(0))
    item = await store.item()
    assert expected == (item.get("breaker_since"), item.get("failed_probes"))
    prefix = keys.work_prefix(claim.ref.chunk) + keys.ERROR_ROWS
    errors = [row async for row in store.table.query(claim.ref.pk, prefix)]
    assert [row["deferred"] for row in errors] == [True] * (
        facts.get("failure") is EXHAUSTED
    )
    assert item.get("exhaustions", 0) == (facts.get("blocked_on") == WORKER)
    for name in ("budget_deferrals", "stage_deferrals", "early_deferrals"):
        assert item.get(name, 0) == 10 * (name in known)


QUESTION = declare("ok", "?", Approval, 60.0, (), (), None).at("first", "ok", NOW)


@pytest.mark.parametrize("made", [0, 1])
@pytest.mark.parametrize(
    ("write", "outcome", "is_other_wait"),
    [
        ("pause", [Paused()], True),
        ("sleep", [Sleeping(NOW + 9)], True),
        ("ask", [Asking(QUESTION)], True),
        ("schedule_retry", [Retry(FAILURE, 9.0)], False),
        ("release", [Released()], False),
    ],
)
async def test_an_answer_or_another_wait_ends_the_wait_for_a_breaker(
    store: Store, write: str, outcome: list[Any], made: int, *, is_other_wait: bool
) -> None:
    claim = await store.running(breaker_since=iso(NOW - 9))
    assert await getattr(store.settlements, write)(claim, *outcome, calls=Calls(made))
    kept = "breaker_since" in await store.item()
    assert kept is not (is_other_wait or made == 1)


async def test_a_deferred_compensation_gives_back_its_attempt_or_recovery(
    store: Store,
) -> None:
    claim = await store.running(attempts=3, recoveries=2, direction="compensating")
    await defer(store, replace(claim, is_recovery=True))
    item = await store.item()
    assert (item["attempts"], item["recoveries"]) == (3, 1)


@pytest.mark.parametrize("untried", [True, False])
@pytest.mark.parametrize(
    ("write", "wait"),
    [
        ("defer", Deferred(REFUSED, 30.0, REFUSED.dependency)),
        ("release", Released()),
        ("pause", Paused()),
        ("sleep", Sleeping(NOW + 9)),
        ("ask", Asking(QUESTION)),
    ],
)
async def test_a_pivot_that_was_not_tried_is_known_by_the_claim_that_met_it(
    store: Store, write: str, wait: Any, *, untried: bool
) -> None:
    claim = await store.running()
    wait = replace(wait, pivot_untried=untried)
    await getattr(store.settlements, write)(claim, wait, calls=Calls(5))
    noted = (await store.item()).get("pivot_untried_fence")
    assert (noted == claim.fence) is untried


async def test_an_error_is_kept_for_the_dead_letter(store: Store) -> None:
    await schedule_retry(store, await store.running())
    row = (await rows(store))["ERROR#0002#0004"]
    assert (row["gen"], row["attempt"], row["worker"]) == (2, 2, "worker")


async def test_a_dead_chunk_and_its_dead_letter_are_one_write(store: Store) -> None:
    await dead_letter(store, await store.running(payload="p/0+1", label="L"))
    (row,) = [each.item async for each in store.dead_letters.of_job(store.ref)]
    assert row["sk"] == "CHUNK#00000003#GEN#0002"
    assert (row["state"], row["error_code"]) == (
        "OPEN",
        "llm.content.filtered",
    )
    assert (
        row["attempts"],
        row["claims"],
        row["uncompensated_stages"],
    ) == (
        2,
        4,
        ["first"],
    )
    assert (row["payload"], row["label"]) == ("p/0+1", "L")
    assert "ERROR#0002#0004" in await rows(store)


async def test_an_end_of_one_write_is_no_transaction(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def costs_twice(**_: Any) -> None:
        pytest.fail("a transaction is billed twice")

    claim = await store.running()
    monkeypatch.setattr(store.client, "transact_write_items", costs_twice)
    assert await store.settlements.release(claim, Released(), calls=Calls(0)) is True
