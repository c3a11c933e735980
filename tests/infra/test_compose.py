"""LocalStack's compose file: each rule holds, and can fail; no engine is said so.

The tests need no container engine. So they do not show that the file does what it
says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.infra.image.dockerfile import ROOT, image

FOLDER = ROOT / "localstack"
FILE = FOLDER / "compose.yaml"
HOOK = FOLDER / "ready.d" / "data-stack.sh"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
OURS = ("worker", "reconciler")

Rule = Callable[[dict[str, Any]], bool]


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def checked(service: dict[str, Any]) -> bool:
    flags = image().final.all("HEALTHCHECK")[0].flags
    check = service["healthcheck"]
    told = {k: check[k.replace("-", "_")] for k in flags}
    return {k: str(v) for k, v in told.items()} == flags and check["test"] == [
        "CMD",
        *(image().final.all("HEALTHCHECK")[0].listed or []),
    ]


#: Of each process of ours.
RULES: dict[str, Rule] = {
    "it is the image's user": lambda s: s["user"] == image().final.all("USER")[0].text,
    "its root is read-only": lambda s: s["read_only"] is True,
    "it writes to memory alone, and runs nothing from there": lambda s: (
        [t.partition(":")[0] for t in s["tmpfs"]] == ["/tmp"]  # noqa: S108
        and {"noexec", "nosuid", "nodev"} <= set(re.split("[:,]", s["tmpfs"][0]))
        and "volumes" not in s
    ),
    "it has no capabilities and gains none": lambda s: (
        s["cap_drop"] == ["ALL"]
        and "cap_add" not in s
        and s["security_opt"] == ["no-new-privileges:true"]
        and not s.get("privileged")
    ),
    "it has an init, and limits": lambda s: (
        s["init"] is True and bool(s["mem_limit"]) and s["pids_limit"] > 0
    ),
    "it has its shutdown grace": lambda s: (
        float(s["environment"]["PIECEWORK_SHUTDOWN_GRACE_S"]) + SHUTDOWN_MARGIN_S
        < seconds(s["stop_grace_period"])
        <= 120
    ),
    "it waits for the data stack": lambda s: (
        s["depends_on"] == {"localstack": {"condition": "service_healthy"}}
    ),
    "its health is that of the image": checked,
    "it is started without a shell": lambda s: (
        isinstance(s["command"], list) and isinstance(s.get("entrypoint", []), list)
    ),
    "it reaches LocalStack by name, with no one's credentials": lambda s: (
        s["environment"]["AWS_ENDPOINT_URL"] == "http://localstack:4566"
        and s["environment"]["AWS_SECRET_ACCESS_KEY"] == "test"
    ),
    "it is built from the Dockerfile": lambda s: (
        (FOLDER / s["build"]["context"] / s["build"]["dockerfile"]).resolve()
        == ROOT / "infra" / "Dockerfile"
    ),
    "nobody outside reaches it": lambda s: "ports" not in s,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("service", OURS)
def test_a_process_of_ours_keeps_the_rule(service: str, rule: str) -> None:
    assert RULES[rule](COMPOSE["services"][service])


def test_localstack_answers_this_machine_alone_and_is_of_one_release() -> None:
    localstack = COMPOSE["services"]["localstack"]

    assert ["127.0.0.1:4566:4566"] == localstack["ports"]
    assert localstack["image"].endswith(":${LOCALSTACK_VERSION:-4.14.0}")


def test_what_localstack_mounts_is_there_and_not_to_be_written_to() -> None:
    mounts = [m.split(":") for m in COMPOSE["services"]["localstack"]["volumes"]]

    assert ["ro", "ro"] == [rights for _, _, rights in mounts]
    assert [FOLDER / "ready.d", ROOT / "infra" / "data.yaml"] == [
        (FOLDER / here).resolve() for here, _, _ in mounts
    ]
    assert ["/etc/localstack/init/ready.d", "/opt/piecework/data.yaml"] == [
        there for _, there, _ in mounts
    ]


def test_the_ready_hook_deploys_the_data_stack_under_its_name(tmp_path: Path) -> None:
    said = tmp_path / "said"
    stand_in = tmp_path / "awslocal"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\n')
    stand_in.chmod(0o755)
    named = {"PIECEWORK_APP": "cases", "PIECEWORK_ENV": "try"}
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run([HOOK], check=True, env={"PATH": path, **named})

    words = said.read_text().splitlines()
    assert ["cloudformation", "deploy", "--stack-name", "cases-try-data"] == words[:4]
    assert {"App=cases", "Env=try", "Protect=false"} <= set(words)
    assert "/opt/piecework/data.yaml" in words


@pytest.mark.parametrize(
    ("arguments", "docker", "code", "why"),
    [
        (["--conformance"], "exit 1", 0, "skipped: no container engine answers"),
        ([], None, 6, "LocalStack was not started: docker is not installed"),
    ],
    ids=["conformance", "start"],
)
def test_without_a_container_engine_it_says_so(
    arguments: list[str], docker: str | None, code: int, why: str, tmp_path: Path
) -> None:
    if docker is not None:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (tmp_path / "docker").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}"}
    script = [sys.executable, FOLDER / "up.py", *arguments]
    done = subprocess.run(
        script, env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )

    assert code == done.returncode
    assert why in (done.stderr if code else done.stdout)
