"""The reports of workers: the last one counts, and a stopped worker says so."""

from __future__ import annotations

from dataclasses import replace

from piecework.domain.moments import iso
from piecework.domain.rows import WorkerRow
from piecework.store.workers import WorkerReports, note_takeover, read_reports
from piecework_orchestrator.ui.overview import worker_document
from tests.store.conftest import NOW, Store


async def report_of(store: Store, worker: str) -> WorkerRow:
    """Return the report of this test's worker: the rows are the deployment's."""
    [found] = [r for r in await read_reports(store.table) if r.worker == worker]
    return found


async def test_a_worker_reports_again_stops_and_starts_again(store: Store) -> None:
    name = f"w-{store.ref.tenant}"
    worker = WorkerReports(store.table, name, lambda: NOW)
    later = replace(worker, clock=lambda: NOW + 20)

    async def report(reports: WorkerReports, in_progress: int) -> None:
        await reports.report(
            {"b": "v1", "a": "v2"},
            [""],
            {"fax"},
            max_chunks=4,
            in_progress=in_progress,
            lease_s=1.5,
            due_in_s=20.0,
        )

    await report(worker, 0)
    await report(later, 4)
    await worker.stop()
    stopped = await report_of(store, name)
    await report(later, 4)
    running = await report_of(store, name)

    assert stopped.has_stopped
    assert not running.has_stopped
    # A report is written some seconds after it is due.
    assert (True, False) == (running.is_live(NOW + 50), running.is_live(NOW + 51))
    assert (False, True) == (running.is_late(NOW + 50), running.is_late(NOW + 51))
    assert (False, False) == (stopped.is_live(NOW), stopped.is_late(NOW + 51))
    assert ({"a", "b"}, 1.5) == (running.pipelines, running.lease_s)
    assert {"fax"} == running.dependencies
    assert {"a": "v2", "b": "v1"} == running.code_versions
    assert (iso(NOW + 20), iso(NOW + 40)) == (running.reported_at, running.due_at)
    assert running.is_full


async def test_a_worker_whose_chunks_are_taken_over_is_lost_until_it_reports(
    store: Store,
) -> None:
    name = f"lost-{store.ref.tenant}"
    worker = WorkerReports(store.table, name, lambda: NOW)

    async def report() -> WorkerRow:
        facts = {"max_chunks": 4, "in_progress": 4, "lease_s": 1.5, "due_in_s": 20.0}
        await worker.report({"a": ""}, [""], [], **facts)  # type: ignore[arg-type]
        return await report_of(store, name)

    alive = await report()
    for _ in range(2):
        await note_takeover(store.table, name, NOW + 5)
    lost = await report_of(store, name)
    back = await report()
    await note_takeover(store.table, f"never-{name}", NOW)

    assert (True, False, 0) == (
        alive.is_live(NOW + 5),
        alive.is_lost(NOW + 31),
        alive.taken_over,
    )
    assert (False, True, 2) == (
        lost.is_live(NOW + 5),
        lost.is_lost(NOW + 5),
        lost.taken_over,
    )
    assert (True, False, 0) == (
        back.is_live(NOW + 5),
        back.is_lost(NOW + 5),
        back.taken_over,
    )
    # Without a chunk that anyone takes over, the leases must have expired.
    assert alive.is_lost(NOW + 32)
    assert ["ALIVE", "LOST", "LATE", "LOST"] == [
        worker_document(row, now)["state"]
        for row, now in (
            (back, NOW + 5),
            (lost, NOW + 5),
            (back, NOW + 31),
            (back, NOW + 32),
        )
    ]
    shown = worker_document(lost, NOW + 5)
    assert (0, 2) == (shown["in_progress"], shown["taken_over"])
