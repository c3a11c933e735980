from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.errors import (
    NotFoundError,
    PermanentError,
    UnreachableError,
    UsageError,
    WaitTimeoutError,
)
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_local


def ended_with(
    raised: BaseException, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    def act(_: Output) -> None:
        raise raised

    with pytest.raises(typer.Exit) as ended:
        run_local(act, Format.TABLE)
    return ended.value.exit_code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermanentError("x"), 1),
        (UsageError("x"), 2),
        (NotFoundError("x"), 3),
        (UnreachableError("x"), 6),
        (WaitTimeoutError("x"), 7),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == ended_with(error, capsys)[0]


def test_an_error_shows_its_code_its_message_and_the_next_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = NotFoundError("Job x does not exist.", next_step="piecework jobs list")
    stderr = ended_with(error, capsys)[1]
    expected = (
        "error job.record.not_found: Job x does not exist.\nnext: piecework jobs list\n"
    )
    assert expected == stderr


def test_an_unexpected_error_is_one_line_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, stderr = ended_with(ZeroDivisionError("division by zero"), capsys)
    assert (1, "error ZeroDivisionError: division by zero") == (
        code,
        stderr.split("\n")[0],
    )
    assert "PIECEWORK_LOG_LEVEL=debug" in stderr
    assert "Traceback" not in stderr


def test_at_debug_an_error_shows_where_it_was_raised(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_LOG_LEVEL", "debug")
    assert "Traceback" in ended_with(UsageError("x"), capsys)[1]


def test_an_interrupt_is_130_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (130, "interrupted\n") == ended_with(KeyboardInterrupt(), capsys)


def test_an_endpoint_that_does_not_answer_is_6(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
    code, stderr = ended_with(error, capsys)
    assert (6, "error aws.endpoint.unreachable") == (code, stderr.partition(":")[0])


def test_a_permanent_refusal_by_aws_is_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    code, stderr = ended_with(ClientError(answer, "Query"), capsys)  # type: ignore[arg-type]
    assert code == 2
    assert "AccessDeniedException" in stderr


def test_an_unknown_log_level_is_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_LOG_LEVEL", "loud")
    assert ended_with(AssertionError(), capsys)[0] == 2


def test_output_of_user_code_does_not_reach_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def act(out: Output) -> None:
        print("noise")  # noqa: T201 -- as a user's module may
        out.line({"a": 1})

    with pytest.raises(typer.Exit):
        run_local(act, Format.JSON)
    assert ('{"a": 1}\n', "noise\n") == tuple(capsys.readouterr())


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, piecework_orchestrator.cli.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"aioboto3", "boto3", "botocore", "pydantic", "rich", "piecework", "yaml"}
    assert set() == heavy & set(done.stdout.split())


@pytest.mark.parametrize(
    "word", ["jobs", "chunks", "dlq", "effects", "infra", "config"]
)
def test_a_group_alone_shows_its_commands(
    run: Callable[..., object], word: str
) -> None:
    done = run(word)
    assert "Commands" in f"{done.stdout}{done.stderr}"  # type: ignore[attr-defined]


def test_a_full_disk_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = OSError(errno.ENOSPC, "No space left on device")
    code, stderr = ended_with(error, capsys)
    assert (2, "error cli.usage.invalid: A disk is full.") == (
        code,
        stderr.split("\n")[0],
    )
    assert "next: Free disk space" in stderr
