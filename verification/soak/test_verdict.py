"""A soak that lacks a requested fault says so, and fails."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from verification.soak.__main__ import main, show
from verification.soak.cancels import Cancel
from verification.soak.changes import Changes
from verification.soak.fleet import Death, Fleet
from verification.soak.killer import Killer
from verification.soak.plan import Plan
from verification.soak.tables import Accounts
from verification.soak.takeover import Takeover
from verification.soak.verdict import Verdict

PLAN = Plan(chunks=1000, kills=2, freezes=1, stops=1)
SOON = Takeover("w", "plain-0", 3, seconds=3.5)
QUIESCED = Cancel("plain-0", asked=1.0, seconds=0.5, without_faults=True)
UNDER_FAULTS = Cancel("plain-1", asked=1.0, seconds=3.0)


def verdict(
    plan: Plan = PLAN,
    *,
    hit: str = "kill kill freeze stop",
    takeovers: tuple[Takeover, ...] = (SOON,),
    cancels: tuple[Cancel, ...] = (QUIESCED, UNDER_FAULTS),
) -> Verdict:
    """Return the verdict on a soak in which all else went well."""
    hits = Counter(hit.split())
    nobody: Any = None
    fleet = Fleet(nobody, 3, deaths=[Death("w", 1.0)] * hits["kill"])
    killer = Killer(plan, fleet, nobody, nobody, "", plan.rng("killer"), hit=hits)
    killer.done = [(name, 1.0) for name in plan.disruptions()]
    actors = SimpleNamespace(
        fleet=fleet,
        killer=killer,
        traffic=SimpleNamespace(failures=[], submits_killed=0),
        settings=SimpleNamespace(lease_s=3.0),
    )
    course: Any = SimpleNamespace(
        actors=actors,
        accounts=Accounts(plan.chunks, plan.chunks, 0, 0, ()),
        requests=9,
        faults=Counter(reset=1),
        left_in_dead_letter_queue=0,
        seconds=1.0,
    )
    read = Counter(Change=1, Effect=1, Ack=1, LogEvent=1)
    return Verdict(plan, course, [], [], 0, 0, 0, list(takeovers), list(cancels), read)


def facts(of: Verdict) -> dict[str, str]:
    return dict(fact.split("=") for fact in of.last_line().split())


def test_a_soak_in_which_all_that_was_asked_for_came_about_passes() -> None:
    assert [] == show(verdict())
    told = facts(verdict())
    assert ("1", "3.50", "0.50", "3.00") == (
        told["takeovers"],
        told["takeover_p99_s"],
        told["cancel_to_quiesced_p99_s"],
        told["under_faults_p99_s"],
    )


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ({"takeovers": ()}, "no chunk of a killed worker was taken over"),
        ({"cancels": ()}, "no job was cancelled without faults"),
        ({"cancels": (UNDER_FAULTS,)}, "no job was cancelled without faults"),
        ({"hit": "kill kill stop"}, "no freeze hit a worker, of 1"),
        ({"hit": "kill kill freeze"}, "no stop hit a worker, of 1"),
        ({"hit": "freeze stop", "takeovers": ()}, "no kill hit a worker, of 2"),
    ],
)
def test_what_was_asked_for_and_never_came_about_is_no_pass(
    lacking: dict[str, Any], said: str
) -> None:
    assert said in show(verdict(**lacking))[0]


def test_what_was_not_asked_for_is_not_missed() -> None:
    small = Plan(chunks=45, kills=0, freezes=0, stops=0)
    assert [] == show(verdict(small, hit="", takeovers=(), cancels=()))


def test_a_disruption_that_hit_no_worker_is_not_counted() -> None:
    told = facts(verdict(hit="kill stop"))
    assert ("1", "0", "1") == (told["kills"], told["freezes"], told["stops"])


def test_a_late_takeover_and_a_late_cancel_are_broken_rules() -> None:
    late = replace(SOON, seconds=8.01)
    assert ["takeovers take 8.01 s (p99), not 8 s"] == show(verdict(takeovers=(late,)))
    slow = replace(QUIESCED, seconds=float("inf"))
    assert ["a cancel quiesces after inf s (p99), not 2 s"] == show(
        verdict(cancels=(slow,))
    )


async def test_a_victim_is_counted_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("verification.soak.killer.BUSY_WORKER_S", -1.0)
    nobody: Any = None
    fleet = Fleet(nobody, 3)
    changes = Changes(nobody, "", tmp_path / "changes.jsonl")
    killer = Killer(PLAN, fleet, changes, nobody, "", PLAN.rng("killer"))
    assert await killer.victim("freeze") is None
    assert Counter() == killer.hit


def test_records_that_are_missing_are_not_judged_to_be_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == main(["--judge", str(tmp_path)])
    assert "there is no record of the kind Change" in capsys.readouterr().out
