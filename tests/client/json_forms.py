"""Run every command with `-o json`, and write the JSON schemas of what they print.

`python -m tests.client.json_forms` writes `docs/reference/json-forms.json`. A program
may rely on each name of it: the test fails if a command prints another form.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from piecework import runtime, telemetry
from piecework.client import Client
from piecework.domain.outcome import CHANGED_CODE
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import StoreError
from piecework.explain.situation import ACCESS_DENIED
from piecework.settings import Settings
from piecework.store.table import ItemWrite
from piecework_orchestrator.operate import pipelines
from piecework_simulation.in_process import InProcessAws, worker_beside
from tests.client.planted import let_wait, plant
from tests.client.test_acts import words
from tests.client.test_answer_links import asked, publishing
from tests.unit.orchestrator.cli.conftest import RUNNER, app

#: Commands that start processes, serve, or print what a user's program has.
NO_DOCUMENT = frozenset(
    {"ask", "demo", "init", "run", "dev", "worker", "simulate", "ui"}
    | {"reconcile", "results"}
)
#: Commands that change a machine or an account: their own tests read their documents.
ELSEWHERE = frozenset(
    {"up", "down", "doctor", "infra deploy", "infra diff", "infra destroy"}
    | {"infra status", "infra render", "dlq export", "push"}
)
#: Names of values whose inner names are data: statuses, codes, names of workers, facts.
MAPS = frozenset(
    {"counts", "outcomes", "facts", "fingerprints", "deliveries", "compensations"}
    | {"waits", "by_code", "values", "tags", "outputs", "usage", "prices"}
    | {"call_usage", "claim_usage", "stages_usage"}
    | {"models", "operations", "actors", "requests", "units", "objects", "bytes"}
    | {
        "error_codes",
        "code_versions",
        "results",
        "patched",
        "by_actor_usd",
        "advice",
        "warnings",
    }
)
#: Names of values of a pipeline.
ANY = frozenset(
    {"payload", "result", "value", "answer", "default", "patch", "ask", "schema"}
    | {"arguments"}
)
#: Names whose values are never null. Any other one is null while it is not known.
KNOWN = frozenset({"job", "tenant", "status", "chunk", "code", "message"})

PIPELINE = "tests.client.test_acts:words"
#: A command configures the logs for its own stderr, which is closed after it.
NOWHERE = io.StringIO()
SCHEMA = "https://json-schema.org/draft/2020-12/schema"
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                name: {"type": "string"} for name in ("code", "message", "next_step")
            },
            "required": ["code", "message", "next_step"],
            "additionalProperties": False,
        }
    },
    "required": ["error"],
    "additionalProperties": False,
}
WHY = ("--reason", "why")
#: The commands, in the order in which they run: those of a state before the next one.
WALK: dict[str, Sequence[str]] = {
    "running": (
        "jobs list",
        "jobs show JOB",
        "jobs explain JOB",
        "jobs events JOB",
        "jobs timeline JOB",
        "jobs cost JOB --region us-east-1",
        "jobs cancel JOB --compensate --dry-run --pipeline PIPELINE",
        "chunks list JOB",
        "chunks show JOB 0",
        "jobs set-budget JOB --budget-tokens 9000 --reason why",
        "jobs set-priority JOB low --reason why",
        "jobs unpin JOB --reason why",
        "jobs accept-changes JOB --dry-run",
        "jobs pause JOB --reason why",
        "jobs show JOB",
        "jobs explain JOB",
        "jobs resume JOB --reason why",
        "pipelines pause words --reason why",
        "pipelines pause words --reason more",
        "pipelines list",
        "pipelines list",
        "pipelines resume words --reason why",
        "limits set fax --requests-per-minute 3 --reason why",
        "limits pause fax --reason why",
        "limits list",
        "limits resume fax --reason why",
        "budgets set acme --daily-tokens 5 --reason why",
        "budgets list",
        "webhooks set ops --url https://a.io/h --secret env:PIECEWORK_WEBHOOK_OPS",
        "webhooks test ops",
        "webhooks list",
        "webhooks show ops",
        "webhooks retry ops",
        "webhooks remove ops --yes",
        "events",
        "jobs cancel JOB --reason why --yes",
    ),
    "ended": (
        "jobs list",
        "jobs show JOB",
        "jobs show JOB --certificate",
        "jobs watch JOB",
        "jobs explain JOB",
        "jobs events JOB",
        "jobs timeline JOB",
        "jobs timeline JOB 0",
        "jobs cost JOB --region us-east-1",
        "chunks list JOB",
        "chunks show JOB 0",
        "chunks show JOB 1",
        "chunks show JOB 2",
        "chunks show JOB join",
        "jobs diff JOB JOB",
        "chunks calls JOB 1",
        "chunks calls JOB 1 --call 1",
        "dlq list",
        "dlq show JOB 0",
        "dlq show JOB 1",
        "dlq stats",
        "effects list JOB",
        "effects resolve JOB 1 KEY --outcome did-not-happen --reason why --yes",
        "dlq compensate --dry-run",
        "dlq compensate --outcome not-needed --chunk 1 --job JOB --reason why --yes",
        "dlq list",
        "dlq show JOB 1",
        "dlq discard --dry-run",
        "dlq discard --job JOB --chunk 1 --reason why --yes",
        "dlq redrive --dry-run",
        "dlq redrive --job JOB --reason why --yes",
        "jobs cancel JOB --reason why --yes",
        "jobs show JOB",
    ),
    "sampled": (
        "jobs show JOB",
        "jobs forecast JOB --no-wait --region us-east-1",
        "jobs cancel JOB --reason why --yes",
    ),
    "asked": (
        "approvals list",
        "approvals show JOB 0",
        "jobs explain JOB",
        "chunks show JOB 0",
        "approvals answer JOB 0 --approve --reason why",
        "approvals show JOB 0",
        "jobs events JOB",
        "jobs cancel JOB --reason why --yes",
    ),
    "batched": (
        "batches list",
        "batches list --all --job JOB",
        "batches show batch_abc",
        "batches show batch_old",
        "jobs show JOB",
        "jobs explain JOB",
        "batches cancel batch_abc --dry-run",
        "batches cancel batch_abc --reason why --yes",
        "batches direct --dry-run",
        "batches direct --reason why --yes",
        "batches direct batch_abc --reason why --yes",
        "jobs cancel JOB --reason why --yes",
    ),
    "again": (
        "dlq compensate --job JOB --reason why --yes",
        "jobs cancel JOB --reason why --yes",
    ),
    "retried": (
        "jobs retry JOB --reason why",
        "jobs cancel JOB --reason why --yes",
        "jobs delete JOB --reason why --yes",
        "jobs list",
    ),
    "changed": (
        "jobs accept-changes JOB --dry-run",
        "jobs accept-changes JOB --reason why --yes",
    ),
    "": (
        "submit PIPELINE ROWS --job-id submitted",
        "config show",
        "config validate",
        "explain-code llm.http.429_rate_limited",
        "explain-code",
        "infra cost",
    ),
}
#: The commands that fail, and their exit codes.
REFUSED = {
    "jobs show none": 3,
    "dlq list --job none": 3,
    "jobs list --sort nothing": 2,
    "dlq redrive --job none --yes --reason x": 3,
    "submit tests.client.test_acts:words missing.jsonl": 2,
    "limits set fax": 2,
    "explain-code none.at.all": 3,
    "batches show none": 3,
}


def run_all() -> Iterator[tuple[str, int, str, str]]:
    """Yield each command line with its exit code, its output and its errors."""
    settings = Settings(receive_wait_s=1, cancel_poll_s=0.2)
    deployments = {state: InProcessAws(settings) for state in WALK}
    present = [deployments[""]]

    @asynccontextmanager
    async def connect(_: Settings, **__: Any) -> AsyncIterator[Any]:
        yield present[0].runtime()

    # The fourth reader of the reports is a role of one tenant.
    reports = [[], [], [], StoreError("denied", code=ACCESS_DENIED)]
    with (
        mock.patch.object(runtime, "connect", connect),
        mock.patch.object(pipelines, "read_reports", side_effect=reports),
        tempfile.TemporaryDirectory() as folder,
    ):
        rows = Path(folder) / "rows.jsonl"
        rows.write_text('{"text": "one"}\n')
        for state, lines in WALK.items():
            present[0] = deployments[state]
            key = asyncio.run(prepare(present[0], state))
            for line in lines:
                names = {
                    "JOB": state,
                    "KEY": key,
                    "ROWS": str(rows),
                    "PIPELINE": PIPELINE,
                }
                arguments = [names.get(word, word) for word in line.split()]
                yield line, *run(arguments)
        for line in REFUSED:
            yield line, *run(line.split())


def run(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run a command for programs; return its exit code, output and errors."""
    done = RUNNER.invoke(app, [*arguments, "-q", "-o", "json"])
    return done.exit_code, done.stdout, done.stderr


async def prepare(aws: InProcessAws, state: str) -> str:
    """Make the job of a state; return the key of its effect in doubt, or nothing."""
    if not state:
        return ""
    async with Client(runtime=aws.runtime(), actor="ann") as client:
        if state == "asked":
            await client.submit(publishing, [{"text": "b"}], id=state)
            telemetry.configure("critical", stream=NOWHERE)
            module = "tests.client.test_answer_links"
            async with worker_beside(aws, {"publishing": publishing}, [module]):
                await asked(client)
                return ""
        rows = [{"text": text} for text in ("bad", "doubt", "good")]
        sampled = state == "sampled"
        kinds: dict[str, Any] = {"budget_tokens": 10_000, "priority": "high"}
        kinds["pin"] = state == "running"
        is_open = state in {"running", "batched"}
        pipeline = replace(words, queue="gpu") if sampled else words
        aws.create_queues([pipeline.queue])
        job = await client.submit(
            pipeline, rows, id=state, **({"sample": 1} if sampled else kinds)
        )
        if state == "batched":
            await plant(aws.runtime(), state)
            await let_wait(aws.runtime(), JobRef("default", state))
        if is_open:
            return ""
        telemetry.configure("critical", stream=NOWHERE)
        async with worker_beside(aws, {"words": pipeline}, ["tests.client.test_acts"]):
            while sampled and (await job.view()).status != "PAUSED":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            if not sampled:
                await job.wait(timeout=60)
        if state == "changed":
            await stop_by_newer_code(aws, JobRef("default", state).chunk(1))
        effects = [row async for row in job.effects()]
        return str(effects[0]["effect_key"]) if effects else ""


async def stop_by_newer_code(aws: InProcessAws, ref: ChunkRef) -> None:
    """Give a dead chunk the code of those that newer code has stopped."""
    table = aws.runtime().table
    code = {"code": CHANGED_CODE}
    update = "SET error_code = :code"
    await table.update(
        ItemWrite("Update", table.name, ref.pk, ref.sk, update=update, values=code)
    )


# ── schemas ───────────────────────────────────────────────────────────────────


def schema_of(values: Sequence[Any], name: str = "") -> dict[str, Any]:
    """Return the schema of values that were printed in one place."""
    types = {type_of(value) for value in values}
    if name in ANY or types == {"null"}:
        return {}
    if name == "chunk":
        types |= {"number", "string"}  # a join has a name
    if name not in KNOWN and not types & {"object", "array"}:
        types.add("null")
    found: dict[str, Any] = {"type": sorted(types)}
    if len(types) == 1:
        found["type"] = found["type"][0]
    objects = [value for value in values if isinstance(value, dict)]
    if objects and name not in MAPS:
        keys = sorted({key for each in objects for key in each})
        found["properties"] = {
            key: schema_of([each[key] for each in objects if key in each], key)
            for key in keys
        }
    items = [one for value in values if isinstance(value, list) for one in value]
    if items:
        found["items"] = schema_of(items, name)
    return found


def type_of(value: Any) -> str:
    """Return the JSON type of a value; an integer counts as a number."""
    names = {bool: "boolean", str: "string", list: "array", dict: "object"}
    return "null" if value is None else names.get(type(value), "number")


def command_of(line: str) -> str:
    """Return the command of a command line."""
    from piecework_orchestrator.cli.app import COMMANDS

    first, second = [*line.split(), ""][:2]
    return f"{first} {second}" if f"{first} {second}" in COMMANDS else first


def published() -> dict[str, Any]:
    """Return the schemas of all commands, and of an error."""
    printed: dict[str, list[Any]] = {}
    failed: list[str] = []
    for line, code, output, errors in run_all():
        if line in REFUSED:
            continue
        if not output:
            failed.append(f"{line}: exit code {code}: {errors}")
            continue
        printed.setdefault(command_of(line), []).append(json.loads(output))
    assert not failed, "\n".join(failed)
    commands = {name: schema_of(found) for name, found in sorted(printed.items())}
    return {"$schema": SCHEMA, "error": ERROR, "commands": commands}


def written(schemas: dict[str, Any]) -> str:
    """Return the text of the published file; each simple type is on one line."""
    text = json.dumps(schemas, indent=1)
    text = re.sub(r'\[\s*("[a-z]+"),\s*("[a-z]+")\s*\]', r"[\1, \2]", text)
    return re.sub(r'\{\s*("type": [^{}\n]+)\s*\}', r"{\1}", text) + "\n"


if __name__ == "__main__":
    sys.stdout.write(written(published()))
