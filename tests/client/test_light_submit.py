"""A submit of a row, and what shows it, load no SDK: names of modules, not seconds."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from random import Random
from time import time

import pytest

from piecework.aws.endpoint import DEFAULT_REGION, ENDPOINT_VARIABLES
from piecework.runtime import EMBEDDED_ACCOUNT
from piecework.settings import Settings
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.in_process import InProcessAws
from tests.unit.test_imports import COMMAND

APP = """
from pydantic import BaseModel
from piecework import pipeline

class Row(BaseModel):
    n: int

@pipeline
async def double(row: Row) -> int:
    return 2 * row.n
"""
#: What no command of the test may load.
HEAVY = {"aiobotocore", "aiohttp", "botocore.session", "structlog", "yaml"}
KEY = "AKIDEXAMPLE"


async def command(words: list[str], environ: dict[str, str]) -> tuple[str, set[str]]:
    """Run a command; return what it says, and the modules that it has loaded."""
    program = COMMAND.format(words=words)
    program += "print('\\nmodules', *sys.modules, file=sys.stderr)"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, told = (part.decode() for part in await process.communicate())
    assert told.rpartition("\nmodules ")[1], told
    return said, set(told.rpartition("\nmodules ")[2].split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a module, rows, and a configuration of the SDK."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n', encoding="utf-8")
    (tmp_path / "config").write_text("[default]\noutput = json\n", encoding="utf-8")
    return tmp_path


async def test_a_submit_of_a_row_and_its_views_load_no_sdk(folder: Path) -> None:
    settings = Settings()
    bucket = settings.bucket(EMBEDDED_ACCOUNT, DEFAULT_REGION)
    aws = InProcessAws(settings, bucket, Random(1), time)
    unset = {*ENDPOINT_VARIABLES, "AWS_PROFILE"}
    kept = {name: each for name, each in os.environ.items() if name not in unset}
    async with serve_aws(aws, KEY) as url:
        environ = kept | {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": DEFAULT_REGION,
            "AWS_CONFIG_FILE": str(folder / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "PYTHONPATH": str(folder),
        }
        submit = ["submit", "app:double", "rows.jsonl", "--job-id", "j", "-o", "json"]
        said = {}
        for words in (submit, ["jobs", "list", "-o", "json"], ["jobs", "show", "j"]):
            said[words[1]], modules = await command(words, environ)
            assert set() == modules & HEAVY, words
        assert "j" == json.loads(said["app:double"])["job"]
        assert ["j"] == [each["job"] for each in json.loads(said["list"])]
        assert "RUNNING" in said["show"]
