"""The fault proxy in front of the embedded AWS, in an environment of its own.

Above all it forwards a write and cuts the reply: the caller cannot know that it was
written. Rules are tried in order; the first whose probability comes up fires.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from piecework_orchestrator.demo.processes import ChildProcess
from piecework_orchestrator.embedded import environment
from piecework_orchestrator.embedded.environment import CHECKOUT

VERSION = "0.10.0"
LOOPBACK = "127.0.0.1"
PATIENCE_S = 20.0
CONFLICT = {
    "code": "TransactionCanceledException",
    "status": 400,
    "fields": {"CancellationReasons": [{"Code": "TransactionConflict"}]},
}
HELD = {"code": "TransactionConflictException", "status": 400}
#: Its `__main__`, without a line for each request.
QUIETLY = (
    "import logging, sys; from microburst.cli import main;"
    " logging.disable(logging.INFO); sys.exit(main())"
)
#: Forward, then cut the connection before a byte of the reply.
REPLY_LOST: dict[str, Any] = {"response": {"abort_frac": 0.0}}


def rules() -> list[dict[str, Any]]:
    """Return the faults: of a hundred writes, five applied and their replies lost."""
    throttled = {"code": "ProvisionedThroughputExceededException", "status": 400}
    internal = {"code": "InternalServerError", "status": 500}
    busy = {"code": "SlowDown", "status": 503}
    ddb, sqs = "dynamodb", "sqs"
    lost = {
        ddb: (
            "UpdateItem",
            "PutItem",
            "TransactWriteItems",
            "BatchExecuteStatement",
        ),
        sqs: ("SendMessageBatch", "DeleteMessageBatch"),
        "s3": ("PutObject",),
    }
    return [
        *(rule(of, 0.05, REPLY_LOST, op) for of, ops in lost.items() for op in ops),
        rule(sqs, 0.02, REPLY_LOST, "ReceiveMessage"),
        rule(ddb, 0.01, {"error": CONFLICT}, "TransactWriteItems"),
        *(rule(ddb, 0.01, {"error": HELD}, op) for op in ("UpdateItem", "PutItem")),
        rule(ddb, 0.01, {"error": throttled}),
        rule(ddb, 0.005, {"error": internal}),
        rule(sqs, 0.005, {"error": internal}),
        rule("s3", 0.01, {"error": busy}),
        *(rule(of, 0.005, {"reset": True}) for of in (ddb, sqs, "s3")),
        rule(ddb, 0.02, {"latency": {"min": 50, "max": 400}}),
    ]


def rule(
    service: str, probability: float, fault: dict[str, Any], operation: str = ""
) -> dict[str, Any]:
    """Return a rule as microburst reads it."""
    named = {"operation": operation} if operation else {}
    return {"service": service, **named, "probability": probability, **fault}


def ensure() -> Path:
    """Return the Python of the proxy's environment; made once a machine."""
    lock = (CHECKOUT / "requirements" / "microburst.txt").read_text("utf-8")
    return environment.ensure_locked("microburst", VERSION, lock, say)


def say(line: str) -> None:
    """Print to standard error."""
    sys.stderr.write(f"{line}\n")


def start(python: Path, upstream: str, folder: Path) -> tuple[ChildProcess, str]:
    """Start the proxy without a fault yet; return it and where it answers."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = int(listener.getsockname()[1])
    log = folder / "microburst.log"
    words = ["--upstream", upstream, "--host", LOOPBACK, "--port", str(port)]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(python), "-c", QUIETLY, *words],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://{LOOPBACK}:{port}"
    wait_for(url, process)
    return ChildProcess("microburst", process, log), url


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the proxy answers."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            ask(url, "health")
            return
        except OSError:
            time.sleep(0.05)
    process.kill()
    message = "microburst does not answer"
    raise RuntimeError(message)


def enable(url: str) -> None:
    """Put the faults in."""
    ask(url, "rules", rules())


def disable(url: str) -> None:
    """Take the faults out."""
    ask(url, "rules", [])


def counted(url: str) -> tuple[int, Counter[str]]:
    """Return how many requests came through, and the faults by what was done."""
    fired: Counter[str] = Counter()
    for line in ask(url, "metrics").splitlines():
        name, _, count = line.rpartition(" ")
        if name.startswith("microburst_faults_total"):
            action = name.partition('action="')[2].partition('"')[0]
            # How long a delay was is drawn anew each time.
            fired[action if "latency" not in action else "latency"] += int(count)
    total = json.loads(ask(url, "stats"))["requests"]["total"]
    return int(total), fired


def ask(url: str, path: str, body: Any = None) -> str:
    """Ask the proxy's own interface."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{url}/_microburst/{path}", data)  # noqa: S310 -- our own
    with build_opener(ProxyHandler({})).open(request, timeout=10) as reply:
        return str(reply.read().decode())
