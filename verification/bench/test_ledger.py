from __future__ import annotations

from pathlib import Path

from bench.ledger import LedgerReader
from bench.meter import Counts
from bench.rivals.protocol import Config
from bench.workloads import call_figures


def test_a_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    reading = LedgerReader(path)
    assert 0 == reading.poll().first_start

    path.write_text("READY 1 9\nSTART a 5 9\nDONE a")
    assert {} == reading.poll().dones

    with path.open("a") as file:
        file.write(" 7 9\n")
    facts = reading.poll()
    assert (1, 5, 7, {"a": 1}) == (
        facts.ready,
        facts.first_start,
        facts.last_done,
        facts.dones,
    )


def test_what_was_done_again_does_not_make_the_work_last_longer(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("START a 1 9\nDONE a 2 9\nSTART a 3 9\nDONE a 4 9\n")

    facts = LedgerReader(path).poll()

    assert (1, 1, 2) == (facts.started_again, facts.repeated, facts.last_done)


def test_a_call_that_is_paid_for_twice_counts_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("CALL 0 1 FAIL 1\nCALL 0 1 OK 2\nCALL 0 1 OK 3\nCALL 0 2 OK 4\n")

    facts = LedgerReader(path).poll()

    assert (1, 2, 1, 2, 4) == (
        facts.failed,
        len(facts.paid),
        facts.paid_twice,
        facts.first_call,
        facts.last_paid,
    )


def test_a_run_that_left_calls_out_has_no_makespan(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("CALL 0 1 OK 2000000000\nCALL 0 2 OK 3000000000\n")
    facts = LedgerReader(path).poll()

    def figures(calls: int) -> dict[str, float]:
        texts = dict.fromkeys(("endpoint", "region", "queue", "table", "ledger"), "")
        sizes = {"n": 0, "chunks": 1, "calls": calls, "concurrency": 1}
        config = Config(workload="W2b", **sizes, visibility_s=1, sleep_s=1, **texts)
        return dict(call_figures(config, facts, 1.0, 3.0, Counts()))

    assert (0, 2.0) == (figures(2)["lost"], figures(2)["makespan_s"])
    assert 1 == figures(3)["lost"]
    assert "makespan_s" not in figures(3)
