"""The reports of workers: the last one counts, and a stopped worker says so."""

from __future__ import annotations

from dataclasses import replace

from piecework.domain.model import iso
from piecework.domain.rows import WorkerRow
from piecework.store.workers import WorkerReports, read_reports
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
            {"b", "a"},
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
    assert (iso(NOW + 20), iso(NOW + 40)) == (running.reported_at, running.due_at)
    assert running.is_full
