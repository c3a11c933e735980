"""The place of an error says whether a thread or a process could not be started."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from piecework.errors.classify import classify
from piecework.errors.classify_exhaustion import EXHAUSTED_CODE

#: More than any process can have.
HUGE = 1 << 46


def no_thread() -> None:
    before = threading.stack_size(HUGE)
    try:
        threading.Thread(target=print).start()
    finally:
        threading.stack_size(before)


def twice() -> None:
    thread = threading.Thread(target=print, args=("",))
    thread.start()
    thread.start()


def without_init() -> None:
    class Bare(threading.Thread):
        def __init__(self) -> None:
            pass

    Bare().start()


def no_process() -> None:
    refused = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    if refused.errno:  # as `os.fork` raises it in this frame
        raise refused
    os.fork()


def busy_socket() -> None:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def no_handle() -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def same_words() -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("does", "is_exhausted"),
    [
        (no_thread, True),
        (no_process, True),
        (no_handle, True),
        (twice, False),
        (without_init, False),
        (busy_socket, False),
        (same_words, False),
    ],
)
def test_the_place_decides(does: Callable[[], None], is_exhausted: bool) -> None:  # noqa: FBT001
    with pytest.raises(Exception) as raised:  # noqa: PT011 -- each raises another
        does()
    assert (classify(raised.value).code == EXHAUSTED_CODE) is is_exhausted


LIMITED = """
import resource, subprocess, sys
from piecework.errors.classify import classify
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    subprocess.run(["true"], stdout=subprocess.PIPE)
except Exception as error:
    sys.stdout.write(classify(error).code)
"""


def test_a_program_that_cannot_be_started_for_want_of_handles() -> None:
    with suppress(FileNotFoundError):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False
        )
        assert EXHAUSTED_CODE == done.stdout
