from __future__ import annotations

import os
from pathlib import Path

import pytest

from piecework.aws.endpoint import find_endpoint
from piecework.settings import load_settings
from piecework_orchestrator.demo.processes import demo_environment, isolated_environ

USERS = {
    "AWS_PROFILE": "production",
    "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:9",
    "AWS_SECRET_ACCESS_KEY": "of-the-user",
    "PIECEWORK_APP": "theirs",
    "PIECEWORK_CACHE_DIR": "/cache",
    "REVIEW_MODEL": "rules",
    "https_proxy": "http://proxy",
    "PATH": "/bin",
}


def test_the_environment_contains_none_of_the_users_aws_settings(
    tmp_path: Path,
) -> None:
    seen = demo_environment(USERS, tmp_path)

    kept = {name: seen.get(name) for name in USERS}
    assert {
        **dict.fromkeys(USERS),
        "AWS_SECRET_ACCESS_KEY": "demo",
        "PIECEWORK_CACHE_DIR": "/cache",
        "PATH": "/bin",
    } == kept
    assert os.devnull == seen["AWS_CONFIG_FILE"]
    assert "aws" == find_endpoint(seen, tmp_path).source  # no emulator there


def test_the_demo_settings_are_valid(tmp_path: Path) -> None:
    with isolated_environ(demo_environment({}, tmp_path)):
        settings = load_settings()

    assert 3.0 == settings.lease_s
    assert "piecework-local-work" == settings.work_queue


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVIEW_MODEL", "rules")
    before = dict(os.environ)

    with isolated_environ({"PATH": "/bin"}):
        inside = dict(os.environ)

    assert {"PATH": "/bin"} == inside
    assert before == dict(os.environ)
