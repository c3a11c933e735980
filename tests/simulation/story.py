"""Write the history of one small job, for the checker."""

from __future__ import annotations

from random import Random
from typing import Any

from piecework.dependency import Dependency
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.store.serialization import to_item
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.driver.schedule import TENANT, settings
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.process import Process
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.provider import CallRecord, OutgoingCall, Provider

REF = JobRef(TENANT, "trip")
CHUNK = keys.chunk_sk(0)
CLAIMED = {"status": "RUNNING", "fence": 1, "attempts": 1}
LEASE_S = 20.0


class Story:
    """A world in which only the test writes."""

    def __init__(self) -> None:
        rng = Random(1)
        drawn = settings(max_attempts=3, max_releases=1)
        self.world = World(drawn, Faults({}, rng), rng)
        self.invariants = Invariants(self.world)
        self.provider = Provider(self.world, self.invariants.report_violation)
        self.invariants.provider = self.provider
        self.provider.claimed_as_suspect = self.invariants.claimed_as_suspect
        self.items: dict[str, dict[str, Any]] = {}

    def write(self, sk: str, *, by: str = "w", pk: str = REF.pk, **facts: Any) -> None:
        """Change attributes of an item, as a process; None removes an attribute."""
        old = self.items.get(sk)
        merged = {**(old or {"job": REF.job}), **facts}
        new = {name: value for name, value in merged.items() if value is not None}
        self.items[sk] = new
        self.world.sender = Process(by)
        self.show_change(pk, sk, old, new)

    def show_change(self, pk: str, sk: str, old: Any, new: Any) -> None:
        """Pass a write to the checker."""
        table = self.world.settings.checkpoints_table
        before, after = (to_item(item) if item else None for item in (old, new))
        self.invariants.check_write([Change(table, pk, sk, before, after)])

    def show_limits(self, old: Any, new: Any) -> None:
        """Pass a write to the limits of a dependency to the checker."""
        self.show_change(keys.BREAKERS_PK, keys.limits_sk("shop"), old, new)

    def show_budget(self, old: Any, new: Any) -> None:
        """Pass a write to the budget of the job to the checker."""
        self.show_change(REF.pk, keys.BUDGET_SK, old, new)

    def delete(self, sk: str) -> None:
        self.show_change(REF.pk, sk, self.items[sk], None)

    def create(self, sk: str, **facts: Any) -> None:
        chunk = keys.JOIN_CHUNK if sk == "JOIN" else int(sk[-8:])
        fresh = {"status": "PENDING", "gen": 1, "fence": 0, "attempts": 0}
        self.write(sk, **{"chunk": chunk, "stage": "first", **fresh, **facts})

    def claim(self, sk: str, mark: str = "t1", **facts: Any) -> None:
        lease = {"claim_expires_at": iso(self.world.now() + LEASE_S)}
        held = {"claimed_by": "w", "claim_token": mark, **lease}
        self.write(sk, **{**CLAIMED, **held, **facts})

    def lose_claim(self) -> None:
        """Release the expired lease of the chunk's worker."""
        self.write(CHUNK, by="reconciler", status="WAITING", takeovers=1)

    def submit_job(self) -> None:
        """Submit a job of one chunk."""
        self.write("META", status="SUBMITTING", gen=1, chunks=1)
        self.create(CHUNK)
        self.write("META", status="RUNNING")

    def run_whole_job(self) -> None:
        """Write the whole history of the job."""
        self.submit_job()
        self.claim(CHUNK)
        self.write(CHUNK, status="SUCCEEDED", claimed_by=None)
        self.write("META", status="FINALIZING")
        self.create("JOIN")
        self.claim("JOIN")
        self.write("JOIN", status="SUCCEEDED", claimed_by=None)
        self.write("META", status="SUCCEEDED")

    def execute_effect(self, identity: str = "one", *, intended: bool = True) -> None:
        """Execute an effect at the provider, for itself or as a fallback of `one`."""
        outgoing = OutgoingCall(identity, Dependency("shop"), chain="one")
        entry = self.provider.records.setdefault(
            identity, CallRecord(Effect.PROVIDER_IDEMPOTENT)
        )
        if intended:
            self.provider.intended.add("key")
        self.provider.record(entry, "key", "value", outgoing)
