"""The worker as a program: what its arguments say before it works."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from piecework.loading import version_line
from piecework_worker.__main__ import app


def test_it_says_its_version_and_needs_nothing_for_it() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (0, f"{version_line()}\n") == (done.exit_code, done.stdout)


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_it_says_what_it_takes(asked: str) -> None:
    done = CliRunner().invoke(app, [asked])
    assert (0, True) == (done.exit_code, "--pipelines" in done.stdout)


def test_without_a_pipeline_it_does_not_start() -> None:
    assert 2 == CliRunner().invoke(app, []).exit_code
