"""The run of a chunk of two stages: true engine and lease, nothing stored."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import ClaimUsage
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.protocols import CancelRequest
from piecework.pipelines import Pipeline, Stage
from piecework.saga.shape import shape_of
from piecework.settings import Settings
from piecework.testing.memory_records import MemoryCheckpoints
from piecework_worker.assembly import ChunkRun
from piecework_worker.claim_state import ClaimState
from piecework_worker.lease import Lease
from tests.unit.piecework.fakes import Clause, context, limits
from tests.unit.piecework.store.tables import REF

SETTINGS = Settings(lease_s=60, visibility_s=90, stall_timeout_s=100, max_runtime_s=500)
#: The functions that ran.
DID: list[str] = []


async def first(_: Any) -> None:
    DID.append("first")


async def second(_: Any) -> None:
    DID.append("second")


async def undo(_: Any) -> None:
    DID.append("undo")


def pipeline(run: Any = second) -> Pipeline:
    """Return a pipeline of `first`, with a compensation, and of a second stage."""
    stages = [
        Stage(first, compensate=undo, undo_if_failed=True),
        Stage(run, name="second"),
    ]
    return Pipeline(name="review", payload=Clause, stages=stages)


@dataclass
class Progress(MemoryCheckpoints):
    """Checkpoints that may have seen a cancel."""

    cancel: CancelRequest | None = None


class Journal:
    """A journal that records how it was closed."""

    kept: bool | None = None
    is_late = False

    async def close(self, *, keep: bool, patient: bool) -> None:
        self.kept, self.patient = keep, patient

    async def finish_rest(self, *, patient: bool) -> None: ...

    async def write_late(self) -> None:
        self.is_late = True


def chunk_run(
    *,
    run: Any = second,
    error_history: Any = (),
    gen: int = 1,
    fence: int = 3,
    reached_stage: str = "second",
    **facts: Any,
) -> Any:
    """Return the run of a claim; `recoveries` makes it a recovery claim."""
    DID.clear()
    item = {"status": "RUNNING", "gen": gen, "fence": fence, "attempts": 3, **facts}
    item.setdefault("stage", reached_stage)
    chunk = Chunk.read(REF, item)
    is_recovery = "recoveries" in facts
    claim = Claim(REF, gen, fence, "token", "worker", chunk, is_recovery)
    stages = pipeline(run)
    progress = Progress(["first", "second"], reached_stage=reached_stage)
    if reached_stage == "second":
        progress.completed = {"first": "null"}
    ledger = SimpleNamespace(
        cancel=None,
        in_doubt=0,
        stages_with_effects=set,
        finish_rest=Journal().finish_rest,
    )
    lease = Lease(claim, None, SETTINGS.lease_s, 0.0, 0.0)
    parts: Any = {"checkpoints": progress, "ledger": ledger, "journal": Journal()}
    gate, usage = PauseGate(), ClaimUsage()
    return ChunkRun(
        shape=shape_of(stages),
        claim=claim,
        lease=lease,
        state=ClaimState(lease, stages, SETTINGS, usage=usage, gate=gate, **parts),
        pipeline=stages,
        ctx=context(stages, attempt=claim.attempt, stage=""),
        limits=limits(),
        questions=SimpleNamespace(load=lambda _: None),
        error_history=list(error_history),
        **parts,
    )
