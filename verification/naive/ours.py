"""Piecework as it is: the real submit, workers and reconcilers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.runtime import Runtime
from piecework.settings import Settings
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.driver.processes import FleetDriver, read_inputs
from piecework_simulation.engine.process import PROCESS, Process
from piecework_simulation.engine.sandbox import Log
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.end_state import get
from verification.naive.design import JOB, SLOTS, Account
from verification.naive.review import CHUNKS, REVIEW, Clause
from verification.naive.source004.worker import SLOTS as MAX_CHUNKS

TENANT = "tenant"
REF = JobRef(TENANT, JOB)
#: All other settings have their defaults.
SETTINGS = Settings(app="simulated", env="test", tenant=TENANT, max_chunks=MAX_CHUNKS)


@dataclass(slots=True)
class PieceworkDesign:
    """Piecework in a simulated world."""

    world: World
    fleet: FleetDriver = field(init=False)
    job: dict[str, Any] = field(default_factory=dict)
    chunks: dict[int, dict[str, Any]] = field(default_factory=dict)
    completed: Counter[int] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = self.world
        log = Log(
            self.unexpected.append,
            lambda said: world.note(PROCESS.get(None), said, None),
        )
        self.fleet = FleetDriver(world, {REVIEW.name: REVIEW}, log)

    def start(self) -> None:
        for _ in range(SLOTS):
            self.fleet.worker(reconcile=True)

    def workers(self) -> Sequence[Process]:
        return [p for p in self.fleet.workers if not p.dead]

    async def submit(self) -> str:
        asked = Submission(REF, REVIEW, "simulation", "somebody")
        clauses = [Clause(n=n) for n in range(CHUNKS)]

        async def act(rt: Runtime) -> None:
            await submit(rt, asked, read_inputs(REVIEW, clauses))

        return await self.fleet.command("submit", REF, act, mortal=False)

    def submitter(self) -> Process:
        return [p for p in self.world.processes if p.name.startswith("submit")][-1]

    def check_write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.new is None or change.table != SETTINGS.checkpoints_table:
                continue
            if change.sk == keys.META_SK:
                self.job = change.new
            elif change.sk.startswith(keys.CHUNK_PREFIX):
                chunk = int(change.new["chunk"]["N"])
                self.chunks[chunk] = change.new
                was = change.old["status"]["S"] if change.old else ""
                now = change.new["status"]["S"]
                self.completed[chunk] += now == "SUCCEEDED" != was

    def known(self) -> bool:
        return bool(self.job)

    def ended(self) -> bool:
        return bool(self.job) and JobStatus(self.job["status"]["S"]).ended

    def over(self) -> bool:
        left = self.world.sqs.next_at(self.world.urls[SETTINGS.work_queue])
        return self.ended() and left is None

    def completions(self) -> int:
        return sum(times > 1 for times in self.completed.values())

    def account(self) -> Account:
        by_status: dict[str, list[int]] = {"SUCCEEDED": [], "DEAD": []}
        for chunk, item in self.chunks.items():
            by_status.setdefault(item["status"]["S"], []).append(chunk)
        return Account(
            frozenset(n for n in by_status["SUCCEEDED"] if self.has_result(n)),
            frozenset(n for n in by_status["DEAD"] if self.has_letter(n)),
            self.ended(),
            whole=bool(self.job) and self.job["status"]["S"] == JobStatus.SUCCEEDED,
        )

    def why_missing(self, chunk: int) -> str:
        item = self.chunks.get(chunk)
        return item["status"]["S"] if item else "never written"

    def has_result(self, chunk: int) -> bool:
        if "value" in self.chunks[chunk]:
            return True
        partition = keys.partition_pk(TENANT, JOB, keys.group_of(chunk))
        table = SETTINGS.checkpoints_table
        return get(self.world, table, partition, keys.result_sk(chunk)) is not None

    def has_letter(self, chunk: int) -> bool:
        row = keys.dead_letter_sk(chunk, int(self.chunks[chunk]["gen"]["N"]))
        return get(self.world, SETTINGS.dead_letters_table, REF.pk, row) is not None

    def errors(self) -> Sequence[str]:
        return self.unexpected
