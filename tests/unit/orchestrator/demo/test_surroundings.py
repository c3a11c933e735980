from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.demo.surroundings import only, surroundings
from piecework.endpoint import find_endpoint
from piecework.settings import load_settings

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


def test_nothing_of_the_user_s_aws_or_settings_is_seen(tmp_path: Path) -> None:
    seen = surroundings(USERS, tmp_path)

    kept = {name: seen.get(name) for name in USERS}
    assert {
        **dict.fromkeys(USERS),
        "AWS_SECRET_ACCESS_KEY": "demo",
        "PIECEWORK_CACHE_DIR": "/cache",
        "PATH": "/bin",
    } == kept
    assert os.devnull == seen["AWS_CONFIG_FILE"]
    assert "aws" == find_endpoint(seen, tmp_path).source  # none is up in that folder


def test_the_pace_is_one_that_the_settings_take(tmp_path: Path) -> None:
    with only(surroundings({}, tmp_path)):
        settings = load_settings()

    assert 3.0 == settings.lease_s
    assert "piecework-local-work" == settings.work_queue


def test_the_environment_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVIEW_MODEL", "rules")
    before = dict(os.environ)

    with only({"PATH": "/bin"}):
        inside = dict(os.environ)

    assert {"PATH": "/bin"} == inside
    assert before == dict(os.environ)
