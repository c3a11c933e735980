from __future__ import annotations

import asyncio
import os
import signal
import time
import warnings

from piecework_worker.stopping import stop_on_signals
from tests.unit.piecework.fakes import Log


def fork() -> int:
    """Fork as a stage may; the fork ends by itself in the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the fork does without
        pid = os.fork()
    if pid == 0:
        time.sleep(5)
        os._exit(0)
    return pid


def ended_by(pid: int) -> int:
    """Return the signal that ended a fork."""
    return -os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def test_a_signal_for_a_fork_ends_the_fork_and_stops_no_worker() -> None:
    signals = stop_on_signals(Log())  # type: ignore[arg-type]
    try:
        pid = fork()
        os.kill(pid, signal.SIGTERM)
        by = ended_by(pid)
        await asyncio.sleep(0.01)
    finally:
        signals.close()

    assert "" == signals.stop.signal
    assert not signals.stop.is_set()
    assert signal.SIGTERM == by
