from __future__ import annotations

from bench import machine, processes
from bench.machine import NoiseSample


def test_a_process_is_read_whatever_its_name_holds() -> None:
    fields = " ".join(str(number) for number in range(4, 53))

    stat = processes.parse(7, f"7 (a) b) S {fields}")

    assert (7, 4, 5) == (stat.pid, stat.parent, stat.group)
    assert (14 + 15 + 16 + 17) / processes.TICKS == stat.cpu


def test_busy_time_of_other_processes_is_foreign() -> None:
    before, after = NoiseSample(0.0, 10.0, 4.0, 0.0), NoiseSample(2.0, 13.0, 5.0, 1.0)

    found = machine.between(before, after)

    assert (2.0, 1.0, 0.5) == (
        found["seconds"],
        found["foreign_cores"],
        found["steal_cores"],
    )


def test_idle_and_stolen_time_is_not_counted_as_work() -> None:
    ticks = processes.TICKS
    line = " ".join(["cpu ", *(str(ticks * n) for n in (1, 2, 3, 40, 50, 6, 7, 8, 0))])

    assert (1 + 2 + 3 + 6 + 7, 8) == machine.parse(line)
