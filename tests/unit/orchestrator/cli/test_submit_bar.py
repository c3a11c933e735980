"""Progress of a submit: a bar on a terminal, lines in a log, nothing for programs."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import pytest

from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import Step, StepProgress, show_steps


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Kept:
    """Records the steps that it is shown."""

    steps: list[Step] = field(default_factory=list)
    over: list[Step] = field(default_factory=list)

    def now(self, step: Step) -> None:
        self.steps.append(step)

    def ended(self, step: Step) -> None:
        self.over.append(step)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(clock: Clock, progress: StepProgress) -> None:
    """Read 1,000 chunks in 1 s, write them in 4 s, and send half of them in 2 s."""
    for step, seconds, done in (("read", 1, 1000), ("written", 4, 1000)):
        for part in range(1, 11):
            clock.now += seconds / 10
            progress(step, done * part // 10)
    for part in range(1, 6):
        clock.now += 0.4
        progress("sent", 100 * part)


def test_the_time_left_includes_writing_and_sending() -> None:
    clock, kept = Clock(), Kept()
    progress = StepProgress(kept, 0.0, clock)
    progress("read", 1000)
    progress("written", 0)
    clock.now = 2.0
    progress("written", 500)
    progress("sent", 0)
    clock.now = 4.0
    progress("sent", 500)
    written, sent = kept.steps[2], kept.steps[4]
    assert "500/1,000 chunks, 250/s, 0:06 left" == str(written)
    assert "500/1,000 chunks, 250/s, 0:02 left" == str(sent)


def test_progress_is_shown_at_intervals_and_at_the_end_of_each_step() -> None:
    clock, kept = Clock(), Kept()
    progress = StepProgress(kept, 2.0, clock)
    run(clock, progress)
    progress.close()
    assert ["written", "written", "sent"] == [step.name for step in kept.steps]
    ends = [("read", 1000), ("written", 1000), ("sent", 500)]
    assert ends == [(step.name, step.done) for step in kept.over]


def test_a_step_that_waits_is_shown_once() -> None:
    clock, kept = Clock(), Kept()
    progress = StepProgress(kept, 2.0, clock)
    for clock.now in range(3, 30):
        progress("sampled", 0)
    assert ["sampled"] == [step.name for step in kept.steps]


def test_a_cancel_has_one_step_of_as_many_chunks_as_its_job() -> None:
    clock, kept = Clock(), Kept()
    progress = StepProgress(kept, 0.0, clock, total=1000)
    clock.now = 2.0
    progress("swept", 500)
    assert "500/1,000 chunks, 250/s, 0:02 left" == str(kept.steps[0])
    terminal = Terminal()
    with show_steps(Output(Format.TABLE, io.StringIO(), terminal), 4) as shown:
        shown("swept", 4)
    assert "swept" in terminal.getvalue()


def test_a_submit_under_an_id_that_exists_may_only_send() -> None:
    clock, kept = Clock(), Kept()
    progress = StepProgress(kept, 0.0, clock)
    progress("read", 10)
    progress("sent", 4)
    assert (10, 6) == (kept.steps[-1].total, kept.steps[-1].ahead)


@pytest.mark.parametrize("terminal", [Terminal(), io.StringIO()])
def test_no_progress_is_shown_to_programs(terminal: io.StringIO) -> None:
    with show_steps(Output(Format.JSON, io.StringIO(), terminal)) as progress:
        progress("read", 3)
    assert "" == terminal.getvalue()


def test_counting_does_not_change_the_sending_rate() -> None:
    clock, kept = Clock(), Kept()
    progress = StepProgress(kept, 0.0, clock)
    for step, seconds, done in (
        ("read", 1.0, 1000),
        ("written", 4.0, 1000),
        ("counted", 60.0, 700),
        ("counted", 30.0, 1000),
        ("sent", 1.0, 250),
    ):
        clock.now += seconds
        progress(step, done)
    counted, sent = kept.steps[2], kept.steps[4]
    assert ("700/1,000 chunks", 1000) == (str(counted), counted.ahead)
    assert "250/1,000 chunks, 250/s, 0:03 left" == str(sent)
