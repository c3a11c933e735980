"""The Dockerfile: hadolint finds nothing, and each rule of ours holds and can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from piecework.settings import Settings
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.infra.image.context import copied, let_in
from tests.infra.image.dockerfile import DOCKERFILE, ROOT, image
from tests.infra.image.rules import RULES

TEXT = DOCKERFILE.read_text("utf-8")
HADOLINT = Path(sys.prefix) / "bin" / "hadolint"


@pytest.mark.parametrize("rule", RULES)
def test_the_image_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](image())


@pytest.mark.parametrize(
    ("text", "finds"),
    [(TEXT, ""), (TEXT.replace("WORKDIR /src", "WORKDIR src"), "DL3000")],
    ids=["ours", "broken"],
)
def test_hadolint_finds_nothing_in_it_and_can_find(text: str, finds: str) -> None:
    command = [HADOLINT, "--no-color", "-"]
    found = subprocess.run(
        command, input=text, text=True, capture_output=True, check=False
    )

    assert bool(finds) == bool(found.returncode)
    assert finds in found.stdout


@pytest.mark.parametrize("folder", ["piecework", "workers", "orchestrator", "examples"])
def test_all_of_the_code_comes_into_the_build(folder: str, code: Path) -> None:
    there = {p.relative_to(code) for p in (code / folder).rglob("*.py")}

    assert {p.relative_to(ROOT) for p in (ROOT / folder).rglob("*.py")} == there


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    copied(image(), folder)
    return folder


@pytest.mark.parametrize("name", [".git", ".env", ".venv", "out", "tests/conftest.py"])
def test_what_the_image_is_not_made_from_is_not_let_in(name: str) -> None:
    assert not let_in(name)


def test_a_worker_in_it_has_stopped_before_docker_or_fargate_lose_patience() -> None:
    assert Settings().shutdown_grace_s + SHUTDOWN_MARGIN_S < 30
