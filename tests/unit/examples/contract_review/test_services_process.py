"""Both services as the one process that runs beside the example."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from piecework_examples.contract_review.playbook import HERE


@contextmanager
def running(state: Path) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "piecework_examples.contract_review.services"]
    options = ["--port", "0", "--state", str(state), "--latency", "0"]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, cwd=HERE.parents[1]
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.terminate()
        assert 0 == process.wait(timeout=10)


def send(url: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - a loopback address of our own
        url,
        data=json.dumps(body).encode() if body else None,
        headers={"Idempotency-Key": "k", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310
        return json.load(response)


def test_the_services_say_where_they_are_and_remember_over_a_restart(
    tmp_path: Path,
) -> None:
    command, state = {"job": "j", "clause": 3}, tmp_path / "state.json"
    with running(state) as ready:
        first = send(f"{ready['addin']}/slots", command)
    with running(state) as ready:
        assert first == send(f"{ready['addin']}/slots", command)
        assert {"reserve": 1} == send(ready["ledger"])["effects"]
        assert 0 == send(ready["stats"])["calls"]
