"""`--processes auto` runs one process on each core that the worker may use."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from piecework_worker.cores import count_cores, parse_processes


@pytest.mark.parametrize(
    ("task_cpus", "cgroup_2", "cgroup_1", "cores"),
    [
        (0.0, "", ("", ""), 8),
        (0.0, "max 100000", ("", ""), 8),
        (0.0, "250000 100000", ("", ""), 2),
        (0.0, "50000 100000", ("", ""), 1),
        (0.0, "", ("400000", "100000"), 4),
        (0.0, "", ("-1", "100000"), 8),
        # A task of Fargate sees more cores than it has.
        (0.5, "", ("", ""), 1),
        (2.0, "max 100000", ("", ""), 2),
        (4.0, "300000 100000", ("", ""), 3),
    ],
)
def test_the_smallest_quota_counts(
    task_cpus: float,
    cgroup_2: str,
    cgroup_1: tuple[str, str],
    cores: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visible = set(range(8))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: visible, raising=False)
    places = [tmp_path / name for name in ("max", "quota", "period")]
    for place, text in zip(places, (cgroup_2, *cgroup_1), strict=True):
        if text:
            place.write_text(f"{text}\n")
    assert cores == count_cores(task_cpus, places)


@pytest.mark.parametrize(("word", "count"), [("auto", 0), ("1", 1), ("16", 16)])
def test_a_number_or_auto_is_asked_for(word: str, count: int) -> None:
    assert count == parse_processes(word)


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "all", ""])
def test_another_word_is_refused(word: str) -> None:
    with pytest.raises(ArgumentTypeError):
        parse_processes(word)
