"""The parts of an exception that a log may contain."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys

import pytest
from botocore.exceptions import ClientError

from piecework.errors import PermanentError
from piecework.telemetry import configure, guard_loop, guard_process
from piecework.telemetry.logs import LINE_LIMIT, TRACE_LIMIT, format_traceback


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 -- whatever it is
        return caught


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("Dear Ann"), "ValueError"),
        (KeyError("Dear Ann"), "KeyError"),
        (OSError(2, "No such file", "Dear Ann"), "FileNotFoundError: No such file"),
        (
            PermanentError("no clause", code="a.b.c"),
            "PermanentError: a.b.c: no clause",
        ),
        (
            ClientError({"Error": {"Code": "No", "Message": "no"}}, "X"),
            "ClientError: An error occurred (No) when calling the X operation: no",
        ),
    ],
)
def test_only_messages_of_piecework_and_the_sdk_are_logged(
    error: Exception, words: str
) -> None:
    *frames, last = format_traceback(raised(error)).splitlines()
    assert words == last
    assert frames[-1].endswith("in raised")


def test_a_chain_and_a_group_are_logged_by_their_types() -> None:
    cause = raised(ValueError("Dear Ann"))
    group = ExceptionGroup("Dear Ann", [TypeError("Dear Ann")])
    group.add_note("Dear Ann")
    group.__cause__ = cause
    text = format_traceback(raised(group))
    assert "Ann" not in text
    for name in ("ValueError", "TypeError", "ExceptionGroup"):
        assert name in text


def test_a_traceback_is_bounded() -> None:
    error = PermanentError("x" * 100_000, code="a.b.c")
    assert len(format_traceback(raised(error))) <= TRACE_LIMIT


async def test_the_error_of_an_unawaited_task_is_logged_without_its_message() -> None:
    stream = io.StringIO()
    configure("info", json=True, stream=stream)
    loop = asyncio.get_running_loop()
    guard_loop(loop)
    error = raised(ValueError("Dear Ann"))
    loop.call_exception_handler({"message": "never retrieved", "exception": error})
    loop.set_exception_handler(None)
    said = json.loads(stream.getvalue())
    assert ("task.failed", "never retrieved") == (said["event"], said["reason"])
    assert "Ann" not in stream.getvalue()


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Guard this process until the end of the test; return the stream of its log."""
    stream = io.StringIO()
    configure("info", json=True, stream=stream)
    for name in ("excepthook", "unraisablehook"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr("threading.excepthook", None)
    guard_process()
    return stream


def test_an_uncaught_error_is_logged_without_its_message(
    guarded: io.StringIO,
) -> None:
    error = raised(ValueError("Dear Ann"))
    sys.excepthook(ValueError, error, None)
    said = json.loads(guarded.getvalue())
    assert ("process.failed", "critical") == (said["event"], said["level"])
    assert "Ann" not in guarded.getvalue()


def test_an_interrupt_by_the_operator_is_not_logged_as_a_crash(
    guarded: io.StringIO,
) -> None:
    error = raised(KeyboardInterrupt())
    sys.excepthook(KeyboardInterrupt, error, None)
    assert "" == guarded.getvalue()


def test_a_line_of_a_library_is_cleaned_and_cut() -> None:
    stream = io.StringIO()
    configure("info", json=True, stream=stream)
    logging.getLogger("library").warning("mail ann@mail.example %s", "x " * 10_000)
    said = json.loads(stream.getvalue())
    assert said["event"].startswith("mail [redacted email] x")
    assert LINE_LIMIT == len(said["event"])
