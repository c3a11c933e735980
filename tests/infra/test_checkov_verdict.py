"""Checkov is overruled only with a reason, and only where the reason holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import apart
from tests.apart import NotInstalledError
from tests.infra.check.__main__ import with_checkov
from tests.infra.check.checkov import judged
from tests.infra.check.render import Stack
from tests.infra.check.templates import Templates

LOGS = "AWS::Logs::LogGroup.WorkerLogs"


def report(*failures: tuple[str, str]) -> dict[str, Any]:
    checks = [
        {"check_id": id_, "resource": of, "file_path": "/a.json", "check_name": "said"}
        for id_, of in failures
    ]
    summary = {"passed": 7, "parsing_errors": 0}
    return {"summary": summary, "results": {"failed_checks": checks}}


def stack(**parameters: str) -> dict[str, Stack]:
    return {"a.json": Stack("service", parameters, {}, {})}


def test_what_has_a_reason_is_skipped_and_counted() -> None:
    verdict = judged(report(("CKV_AWS_158", LOGS)), stack(KeyArn=""))
    assert verdict.skipped == {"CKV_AWS_158": 1}
    assert not [said for said in verdict.failed if said.startswith("CKV_AWS_158")]


def test_a_reason_does_not_hold_where_the_parameter_is_given() -> None:
    verdict = judged(report(("CKV_AWS_158", LOGS)), stack(KeyArn="arn:a-key"))
    assert f"CKV_AWS_158 service: {LOGS}: said" in verdict.failed


@pytest.mark.parametrize(
    ("check", "of"),
    [("CKV_AWS_158", "AWS::SQS::Queue.Logs"), ("CKV_AWS_107", LOGS)],
)
def test_what_has_no_reason_fails(check: str, of: str) -> None:
    verdict = judged(report((check, of)), stack(KeyArn=""))
    assert f"{check} service: {of}: said" in verdict.failed


def test_a_reason_that_nothing_needs_fails() -> None:
    verdict = judged(report(), stack(KeyArn=""))
    assert "CKV_AWS_158: a reason that nothing needs" in verdict.failed


def test_a_checkov_that_cannot_be_installed_is_told_and_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: str) -> Path:
        raise NotInstalledError("no index within reach")

    monkeypatch.setattr(apart, "bin_of", refuse)
    wrong, figures = with_checkov(Templates({}, "", {}))
    assert ["checkov could not be installed: no index within reach"] == wrong
    assert figures["checkov_failed"] == "none"
