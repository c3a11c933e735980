"""The processes of a worker know the sums of what the others do."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import Any

import pytest

from piecework.settings import Settings
from piecework_worker.process import settings_of
from piecework_worker.siblings import Line, Siblings, WholeWorker, sum_of


class Work:
    """A worker with two chunks, one of them claimed."""

    paused = False

    def lease_count(self) -> int:
        return 1

    def count_unfinished(self) -> int:
        return 2

    def pause_intake(self, *, on: bool) -> None:
        self.paused = on


def status(called: list[str], *, pauses: bool = False) -> dict[str, Any]:
    facts = {"in_progress": 3, "unfinished": 4}
    return {**facts, "called": called, "pauses_intake": pauses}


def test_the_first_process_counts_the_chunks_of_all() -> None:
    siblings, own = Siblings(), Work()
    siblings.adopt(sum_of([status(["mail"]), status(["fax", "mail"])]))
    whole = WholeWorker(own, siblings)

    assert (7, 10) == (whole.lease_count(), whole.count_unfinished())
    assert {"fax", "mail"} == siblings.called
    assert {
        "in_progress": 0,
        "unfinished": 0,
        "called": [],
        "pauses_intake": False,
    } == (sum_of([]))


@pytest.mark.parametrize("number", [1, 2])
def test_the_others_pause_as_the_first_says(number: int) -> None:
    siblings = Siblings(number, 2, parent=7)
    siblings.adopt(sum_of([status([], pauses=True)]))
    assert siblings.pauses_intake is (number > 1)


def told(end: socket.socket) -> list[dict[str, Any]]:
    return [json.loads(each) for each in end.recv(10_000).splitlines()]


def test_a_process_tells_what_it_does_and_stops_with_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = list[tuple[int, int]]()
    monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))
    ours, theirs = socket.socketpair()
    line = Line(theirs, Siblings(2, 2, parent=7), Work(), {"mail"})
    with theirs:
        line.tell()
        facts = {"in_progress": 1, "unfinished": 2, "pauses_intake": False}
        assert [{**facts, "called": ["mail"]}] == told(ours)
        # A message that arrives in pieces counts once it is whole.
        message = json.dumps(sum_of([status(["fax"])])).encode() + b"\n"
        ours.sendall(message[:9])
        assert line.hear()
        assert 0 == line.siblings.in_progress
        ours.sendall(message[9:])
        assert line.hear()
        assert 3 == line.siblings.in_progress

        ours.close()
        line.serve()
        assert [(os.getpid(), signal.SIGTERM)] == sent
        line.is_stopping = lambda: True  # a second signal would end it at once
        line.serve()
        assert 1 == len(sent)


def test_the_processes_share_the_memory_and_have_ports_of_their_own() -> None:
    settings = Settings(memory_mb=1001, prometheus_port=9100)
    found = [settings_of(settings, Siblings(n, 2, parent=7)) for n in (1, 2)]
    assert [(501, 9100), (501, 9101)] == [
        (each.memory_mb, each.prometheus_port) for each in found
    ]
    default = settings_of(Settings(), Siblings(2, 2, parent=7))
    assert (0, 0) == (default.memory_mb, default.prometheus_port)
