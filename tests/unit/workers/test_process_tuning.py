from __future__ import annotations

import asyncio
import os
import signal
import time
import warnings

from piecework_worker.shutdown import stop_on_signals


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
    loop, stop = asyncio.get_running_loop(), stop_on_signals()
    try:
        pid = fork()
        os.kill(pid, signal.SIGTERM)
        by = ended_by(pid)
        await asyncio.sleep(0.01)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    assert "" == stop.signal
    assert not stop.is_set()
    assert signal.SIGTERM == by
