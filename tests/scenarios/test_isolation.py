"""Guarantee: what kills the child of an isolated stage costs that chunk an attempt."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from piecework.domain.budget import Cap, parse_cap
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.jobs.budgeting import set_budget
from piecework.pipelines import Pipeline
from piecework.store.checkpoints import read_work
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.reading.call_documents import call_document
from tests.scenarios.conftest import PATIENCE_S, Process, Scenario
from tests.scenarios.isolated import (
    fragile,
    judging,
    metered,
    napping,
    paying,
    waiting,
)
from tests.scenarios.pipelines import Item

ISOLATED = ("--pipelines", "tests.scenarios.isolated")


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIECEWORK_MAX_ATTEMPTS", "2")


def alive(pid: int) -> bool:
    """Return whether there is such a process; a dead one may wait for its parent."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return (
            not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except (ProcessLookupError, FileNotFoundError):
        return False


def children(scenario: Scenario, word: str) -> set[int]:
    """Return the processes in which a stage ran, by its lines in the ledger."""
    return {int(line[-1]) for line in scenario.ledger if line[0] == word}


async def trail(scenario: Scenario, chunk: int) -> list[str]:
    """Return the codes of what ended the attempts of a chunk."""
    ref = (await scenario.job()).ref.chunk(chunk)
    work = await read_work(scenario.rt.table, ref)
    return [row.failure.code for row in work.errors]


async def worked(scenario: Scenario, pipeline: Pipeline, items: list[Item]) -> Process:
    """Submit a job to one worker process and wait until it has ended."""
    await scenario.submit(pipeline, items)
    worker = await scenario.process(*ISOLATED)
    await scenario.ended()
    return worker


@pytest.mark.usefixtures("two_attempts")
async def test_a_stage_that_kills_its_process_harms_no_neighbour(
    machine: Scenario,
) -> None:
    troubles = ["", "exit", "", "segfault", "memory", ""]
    items = [Item(n=n, trouble=trouble) for n, trouble in enumerate(troubles)]
    worker = await worked(machine, fragile, items)

    letters = {row["chunk"]: row for row in await machine.letters()}
    chunks = await machine.chunks()
    assert worker.process.returncode is None
    assert [1, 2, 1, 2, 2, 1] == [chunk.attempts for chunk in chunks]
    assert {1, 3, 4} == set(letters)
    assert "runtime.stage.killed" == letters[1]["error_code"]
    assert "exit code 3" in str(letters[1]["error"])
    assert "runtime.stage.killed" == letters[3]["error_code"]
    assert "SIGSEGV" in str(letters[3]["error"])
    assert "runtime.stage.out_of_memory" == letters[4]["error_code"]
    assert [1, 1, 1] == [machine.happened("unparse", str(n)) for n in (1, 3, 4)]
    assert "FAILED" == letters[3]["compensation"]
    assert await worker.stop() == 0


@pytest.mark.usefixtures("two_attempts")
async def test_a_stage_that_hangs_in_c_is_interrupted(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_STALL_TIMEOUT_S", "4")
    worker = await worked(machine, fragile, [Item(n=1, trouble="hang"), Item(n=2)])

    (letter,) = await machine.letters()
    hung, well = await machine.chunks()
    pids = {int(line[3]) for line in machine.ledger if line[:2] == ["parse", "0"]}
    assert ("runtime.stage.stalled", 2) == (letter["error_code"], hung.attempts)
    assert (ChunkStatus.SUCCEEDED, 1) == (well.status, well.attempts)
    assert 2 == len(pids)
    assert not any(map(alive, pids))
    assert await worker.stop() == 0


@pytest.mark.usefixtures("two_attempts")
async def test_a_child_killed_during_a_call_leaves_an_unknown_effect(
    machine: Scenario,
) -> None:
    await worked(machine, paying, [Item(n=1, trouble="fax")])

    (letter,) = await machine.letters()
    ref = (await machine.job()).ref.chunk(0)
    work = await read_work(machine.rt.table, ref)
    assert "runtime.effect.unknown" == letter["error_code"]
    assert ["UNKNOWN"] == [row.state for row in work.effects]
    assert "runtime.stage.killed" in str(letter["error_history"])
    assert "SIGKILL" in str(letter["error_history"])
    assert 1 == machine.happened("transfer")
    assert 3 == machine.happened("look")


async def test_an_effect_with_a_provider_key_is_requested_again(
    machine: Scenario,
) -> None:
    await machine.submit(paying, [Item(n=1)])
    await machine.process(*ISOLATED)
    await machine.until(lambda: machine.happened("transfer"))
    machine.fix()
    ended = await machine.ended()

    sent = [line for line in machine.ledger if line[0] == "transfer"]
    assert ended.status is JobStatus.SUCCEEDED
    assert 2 == len(sent)
    assert 1 == len({line[2] for line in sent})
    assert 3 == machine.happened("look")


async def test_no_child_outlives_a_killed_worker(machine: Scenario) -> None:
    await machine.submit(waiting, [Item(n=n, seconds=60) for n in range(2)])
    worker = await machine.process(*ISOLATED)
    await machine.until(lambda: machine.happened("block") == 2)

    await worker.kill()

    pids = children(machine, "block")
    assert 2 == len(pids)
    await machine.until(lambda: not any(map(alive, pids)))


async def test_a_cancel_ends_a_function_that_a_thread_could_not_interrupt(
    machine: Scenario,
) -> None:
    await machine.submit(waiting, [Item(n=1, seconds=60)])
    worker = await machine.process(*ISOLATED)
    await machine.until(lambda: machine.happened("block"))

    job = JobRef("default", "job-1")
    await cancel(machine.rt, job, actor="me", reason="enough")
    ended = await machine.ended()

    assert ended.status is JobStatus.CANCELLED
    assert not any(map(alive, children(machine, "block")))
    assert await worker.stop() == 0


async def test_a_stop_releases_an_isolated_stage_without_spending_an_attempt(
    machine: Scenario,
) -> None:
    await machine.submit(waiting, [Item(n=1, seconds=60)])
    worker = await machine.process(*ISOLATED, "--no-reconcile")
    await machine.until(lambda: machine.happened("block"))

    exit_code = await worker.stop()

    (chunk,) = await machine.chunks()
    assert 0 == exit_code
    assert (ChunkStatus.WAITING, 0) == (chunk.status, chunk.attempts)
    assert not any(map(alive, children(machine, "block")))


async def test_a_child_runs_one_stage_after_another(machine: Scenario) -> None:
    await machine.submit(waiting, [Item(n=n) for n in range(6)])
    worker = await machine.process(*ISOLATED, "--max-chunks", "2")
    await machine.ended()
    await worker.stop()

    pids = children(machine, "block")
    assert len(pids) <= 2
    assert not any(map(alive, pids))


async def test_calls_of_an_isolated_stage_spend_from_the_budget(
    machine: Scenario,
) -> None:
    cap = parse_cap(None, 80)
    await machine.submit(metered, [Item(n=n, calls=4) for n in range(4)], budget=cap)
    await machine.process(*ISOLATED)

    async def is_quiet() -> bool:
        running = [c.status is ChunkStatus.RUNNING for c in await machine.chunks()]
        return (await machine.job()).pause is not None and not any(running)

    await machine.until(is_quiet)
    assert 8 == machine.happened("measure")
    job = await machine.job()
    await set_budget(machine.rt, job, Cap(1000), actor="me", reason="more")
    await machine.ended()

    paid = [chunk.call_usage.total("paid") for chunk in await machine.chunks()]
    assert (16, 112) == (
        sum(each["calls"] for each in paid),
        sum(each["tokens_in"] for each in paid),
    )
    assert 16 == machine.happened("measure")


async def test_an_answer_of_an_isolated_stage_that_does_not_fit_is_kept(
    machine: Scenario,
) -> None:
    await machine.submit(judging, [Item(n=7)])
    worker = await machine.process(*ISOLATED)
    await machine.ended()
    await worker.stop()

    found = await call_document(machine.rt, await machine.job(), 0, 1)
    [refused] = found["refused"]
    assert "failed" == found["end"]
    assert "text 7" in str(found["arguments"]["request"])
    assert ["points"] == [place["at"] for place in refused["places"]]
    assert "many" in str(refused["answer"])


async def test_a_worker_beyond_its_memory_limit_releases_its_chunks_and_ends(
    machine: Scenario,
) -> None:
    await machine.submit(napping, [Item(n=1, seconds=60)])
    worker = await machine.process(*ISOLATED, "--memory-mb", "1")

    exit_code = await asyncio.wait_for(worker.process.wait(), PATIENCE_S)

    (chunk,) = await machine.chunks()
    assert 8 == exit_code
    assert 0 == chunk.attempts


async def test_a_stop_does_not_wait_for_a_stage_that_cannot_end_in_time(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_SHUTDOWN_GRACE_S", "9")
    items = [*(Item(n=n, seconds=10) for n in range(3)), Item(n=3, seconds=60)]
    await machine.submit(napping, items)
    worker = await machine.process(*ISOLATED, "--no-reconcile", "--max-chunks", "3")
    await machine.until(lambda: machine.happened("nap", "3"))

    began_at = asyncio.get_running_loop().time()
    exit_code = await worker.stop()
    stopped_after = asyncio.get_running_loop().time() - began_at

    chunk = (await machine.chunks())[3]
    assert 0 == exit_code
    assert stopped_after < 9
    assert (ChunkStatus.WAITING, 0) == (chunk.status, chunk.attempts)
