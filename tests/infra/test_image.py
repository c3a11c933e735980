"""The Dockerfile: hadolint finds nothing, and each rule of ours holds and can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from piecework.settings import Settings
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.infra.image.context import copied, let_in
from tests.infra.image.dockerfile import DOCKERFILE, ROOT, image, parse
from tests.infra.image.rules import RULES

TEXT = DOCKERFILE.read_text("utf-8")
HADOLINT = Path(sys.prefix) / "bin" / "hadolint"

#: Of each rule, what breaks it: this in the Dockerfile becomes that.
BREAKS = {
    "the base is an argument with a digest of its own": (
        "\nFROM ${BASE}${BASE_DIGEST}\n",
        "\nFROM python:3.13-slim\n",
    ),
    "the base has a tag that names a release": (":3.13-slim-bookworm\n", ":latest\n"),
    "the digest is none or a real one": (
        "BASE_DIGEST=\n",
        "BASE_DIGEST=@sha256:0123\n",
    ),
    "it is built in one stage and lives in another": (
        "\nFROM ${BASE}${BASE_DIGEST}\n",
        "\n",
    ),
    "nothing comes into it but what was built": (
        "COPY --from=build /app /app\n",
        "COPY --from=build /app /app\nCOPY piecework /app/piecework\n",
    ),
    "what is downloaded has a hash": (
        "--require-hashes -r requirements/runtime.txt",
        "-r requirements/runtime.txt",
    ),
    "what is not downloaded cannot be": (" --no-index", ""),
    "its own wheel needs nothing from outside": (" --no-build-isolation", ""),
    "dependencies are a layer before the code": (
        "COPY requirements/build.txt",
        "COPY piecework piecework\nCOPY requirements/build.txt",
    ),
    "the whole folder is never copied": ("COPY piecework piecework", "COPY . ."),
    "nothing is fetched or unpacked on the way in": (
        "COPY examples examples",
        "ADD https://example.com/examples.tar /src/examples",
    ),
    "there is no pip in it": ("/usr/local/bin/pip* ", ""),
    "nobody in it becomes somebody else": ("chmod a-s", "ls"),
    "its code is compiled and root's": (
        "COPY --from=build /app",
        "COPY --chown=10001 --from=build /app",
    ),
    "the user is a number and not root": ("USER 10001:10001", "USER piecework"),
    "after the user nothing is run": (
        "USER 10001:10001\n",
        "USER 10001:10001\nRUN true\n",
    ),
    "it is started without a shell": (
        'ENTRYPOINT ["piecework-worker"]',
        "ENTRYPOINT piecework-worker",
    ),
    "it stops by SIGTERM": ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL"),
    "its health is asked for without a shell": (
        'CMD ["python", "-m", "piecework_worker.health"]',
        "CMD python -m piecework_worker.health",
    ),
    "a check is over before the next": ("--timeout=10s", "--timeout=30s"),
    "one place is for writing, and the health file is there": (
        'VOLUME ["/tmp"]',
        'VOLUME ["/home/piecework"]',
    ),
    "Python writes nothing, buffers nothing and says where it crashed": (
        "    PYTHONFAULTHANDLER=1 \\\n",
        "",
    ),
    "it says what it is": ("org.opencontainers.image.revision", "revision"),
    "no secret is set or asked for": (
        "ARG REVISION=unknown",
        "ARG REVISION=unknown\nARG GITHUB_TOKEN",
    ),
    "it offers no port": ("WORKDIR /home/piecework", "EXPOSE 8080"),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_image_keeps_the_rule(rule: str) -> None:
    assert RULES[rule](image())


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_finds_what_breaks_it(rule: str) -> None:
    here, there = BREAKS[rule]
    assert 1 == TEXT.count(here)

    assert not RULES[rule](parse(TEXT.replace(here, there)))


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


def test_the_pages_say_how_to_sign_an_image_and_where_to_report_a_weakness() -> None:
    root = Path(__file__).parents[2]
    deploy = (root / "docs/deploy.md").read_text("utf-8")
    contact = (root / "SECURITY.md").read_text("utf-8")

    for verb in ("sign", "verify"):
        assert f"cosign {verb} --key awskms:///alias/piecework-images" in deploy
    assert "private vulnerability report" in contact
