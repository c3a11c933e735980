"""Stop a worker on a signal, and end its process in time whatever its stages do.

A thread receives the signals: a stage may block the event loop for ever. From the stop
on, the thread waits for the grace. A process that is still there is then ended, without
another word to its stages.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import FrameType
from typing import NoReturn

import structlog

from piecework import telemetry
from piecework_worker.process_tuning import OURS, ignore_signals_in_forks

#: Seconds between two checks that the handlers of the signals are still ours.
KEEP_S = 1.0
#: Seconds that the last line of the log may take.
LAST_LINE_S = 1.0
#: Seconds, at most, of one wait for a signal: the system takes no number of any size.
LONGEST_POLL_S = 3600.0
#: What wakes the thread without a signal.
WAKE = b"\0"


class Stop(asyncio.Event):
    """Set when the worker must stop.

    Attributes:
        signal: The name of the signal that stops it; empty: none does.
        code: The exit code of the process.
        began_at: Monotonic time of the stop; infinite: there was none.
        wake: Called at the stop.
    """

    signal: str = ""
    code: int = 0
    began_at: float = inf
    wake: Callable[[], None] | None = None

    def set(self) -> None:
        """Stop; the first stop begins the time that the process has to end."""
        super().set()
        self.began_at = min(self.began_at, time.monotonic())
        if self.wake is not None:
            self.wake()


@dataclass(slots=True)
class SignalThread:
    """Receives SIGTERM, SIGINT and SIGHUP, and ends the process when its time is over.

    Python writes the number of each signal into a pipe before any code of ours runs.
    The thread reads the pipe. A second signal ends the process at once: other workers
    claim its chunks when their leases expire.

    Attributes:
        within_s: Seconds from the stop to the end of the process.
    """

    stop: Stop
    within_s: float
    log: telemetry.Log
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    pipe: tuple[int, int] = field(default_factory=os.pipe)

    def start(self) -> None:
        """Install the handlers, in the main thread, and start the thread."""
        _, into = self.pipe
        os.set_blocking(into, False)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        for number in OURS:
            signal.signal(number, self.handle)
        self.stop.wake = self.wake
        threading.Thread(target=self.watch, name="signals", daemon=True).start()

    def close(self) -> None:
        """Give the signals back to Python, and end the thread."""
        self.stop.wake = None
        signal.set_wakeup_fd(-1)
        for number in OURS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(self.pipe[1])

    def wake(self) -> None:
        """Let the thread see the stop."""
        with suppress(OSError):
            os.write(self.pipe[1], WAKE)

    def handle(self, number: int, _: FrameType | None) -> None:
        """Write a signal into the pipe if other handlers have taken Python's place.

        `loop.add_signal_handler` of a stage does so.
        """
        into = self.pipe[1]
        theirs = signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        if theirs == into:
            return
        with suppress(OSError):
            os.write(into, bytes([number]))
        if theirs >= 0:
            with suppress(ValueError, OSError):  # it may be closed by now
                signal.set_wakeup_fd(theirs)

    async def keep_handlers(self) -> None:
        """Undo what a stage does to the handlers, until cancelled.

        A worker that ignores SIGTERM would be killed with its chunks.
        """
        while True:
            await asyncio.sleep(KEEP_S)
            for number in OURS:
                if signal.signal(number, self.handle) != self.handle:
                    telemetry.emit(
                        self.log, "worker.signal_restored", signal=number.name
                    )

    def watch(self) -> None:
        """Receive signals, then end the process when its time is over."""
        out_of, _ = self.pipe
        poll = select.poll()
        poll.register(out_of, select.POLLIN)
        while (left_s := self.left_s()) > 0:
            if not poll.poll(min(left_s, LONGEST_POLL_S) * 1000):
                continue
            numbers = os.read(out_of, 64)
            if not numbers:
                os.close(out_of)
                return
            for number in numbers:
                if number in OURS:
                    self.received(signal.Signals(number))
        self.cut_off()

    def left_s(self) -> float:
        """Return the seconds that the process has; infinite: it does not stop."""
        return self.stop.began_at + self.within_s - time.monotonic()

    def received(self, number: signal.Signals) -> None:
        """Stop the worker; at a second signal, end the process."""
        if self.stop.signal:
            os._exit(128 + number)
        self.stop.signal = number.name
        self.stop.began_at = min(self.stop.began_at, time.monotonic())
        with suppress(RuntimeError):  # the loop has ended: the process is about to
            self.loop.call_soon_threadsafe(self.stop.set)

    def cut_off(self) -> None:
        """End the process: what it still runs keeps it from ending by itself."""
        say = threading.Thread(target=self.say_cut_off, daemon=True)
        with suppress(RuntimeError):  # no thread is left
            say.start()
            say.join(LAST_LINE_S)
        kill_forks()
        os._exit(self.stop.code)

    def say_cut_off(self) -> None:
        """Log the end; what the stages do may hold the log, too."""
        telemetry.emit(self.log, "worker.cut_off", seconds=round(self.within_s, 3))


def stop_on_signals(log: telemetry.Log, within_s: float = inf) -> SignalThread:
    """Return the running thread whose `stop` SIGTERM, SIGINT and SIGHUP set."""
    ignore_signals_in_forks()
    thread = SignalThread(Stop(), within_s, log)
    thread.start()
    return thread


# ── end the process ───────────────────────────────────────────────────────────

#: Seconds that a stopped worker waits for its threads, and then for what was
#: registered to run at its exit.
THREADS_S = 1.0
AT_EXIT_S = 2.0


def leave(code: int) -> NoReturn:
    """End the process for good, with this exit code.

    Python would wait for threads, tasks and forks that a stage has left. The chunks are
    released already, so what is left must not run on beside their new owners.
    """
    log = structlog.get_logger()
    here, until = threading.current_thread(), time.monotonic() + THREADS_S
    others = [t for t in threading.enumerate() if t is not here and not t.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    left = sum(thread.is_alive() for thread in others)
    if left:
        telemetry.emit(log, "worker.threads_left", count=left)
    killed = kill_forks()
    if killed:
        telemetry.emit(log, "worker.forks_killed", count=killed)
    finish = threading.Thread(target=run_exit_functions, daemon=True)
    with suppress(RuntimeError):  # no thread is left
        finish.start()
        finish.join(AT_EXIT_S)
    os._exit(code)


def run_exit_functions() -> None:
    """Write what is buffered, and run what libraries have registered for the exit."""
    flush_output()
    atexit._run_exitfuncs()  # noqa: SLF001 -- as multiprocessing does in its forks
    flush_output()


def flush_output() -> None:
    """Write what `print` has buffered."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def kill_forks() -> int:
    """Kill the forks that a stage has left; return their number.

    A fork is a child that runs our own program. A program that a stage has started
    runs on, as the stage may want.
    """
    pids = {fork for fork in children() if words_of(fork) == words_of(os.getpid())}
    if "multiprocessing" in sys.modules:
        import multiprocessing

        with suppress(Exception):  # a stage may have left anything in its list
            pids |= {p.pid for p in multiprocessing.active_children() if p.pid}
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def children() -> list[int]:
    """Return the processes that this one has started; none without /proc."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name of a program is in brackets, and may contain blanks.
            parent = each.read_text(errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                found.append(int(each.parent.name))
    return found


def words_of(pid: int) -> bytes:
    """Return the command line of a process; empty: it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
