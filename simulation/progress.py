"""Report the progress of a long run, and stop it on a signal."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Self

from simulation.many import Totals

#: Seconds between two lines; a terminal shows one line, anew each second.
LOG_INTERVAL_S = 30.0
TERMINAL_INTERVAL_S = 1.0


@dataclass(slots=True)
class Progress:
    """Reports at intervals how many schedules have run."""

    schedules: int
    began: float
    reported_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the first interval now."""
        self.reported_at = self.began

    def report(self, total: Totals) -> None:
        """Write a line, if it is time for one."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self.reported_at < (
            TERMINAL_INTERVAL_S if terminal else LOG_INTERVAL_S
        ):
            return
        self.reported_at = now
        rate = total.schedules / (now - self.began)
        line = f"{total.schedules:,} of {self.schedules:,} schedules, "
        line += f"{len(total.violations)} violations, {rate:.1f} a second"
        sys.stderr.write(f"\r\033[K{line}" if terminal else f"{line}\n")
        sys.stderr.flush()


@dataclass(slots=True)
class StopSignals:
    """Stops a run after its current schedules, on SIGTERM or Ctrl-C.

    A second signal ends the run at once.

    Attributes:
        signal_number: The signal that was received; 0: none.
    """

    signal_number: int = 0
    _before: dict[int, Any] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The shell's exit code for this signal; 0 without a signal."""
        return 128 + self.signal_number if self.signal_number else 0

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self.on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """Note a signal."""
        self.signal_number = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
