"""Model what a worker sees, and how it continues."""

from __future__ import annotations

from verification.model.state import Chunk, Config, Job, Js, Pc, St, Step, Worker


class View:
    """A worker (by its number, from 1), its chunk, the job, and the snapshot."""

    __slots__ = ("c", "cfg", "j", "me", "number", "snapshot", "w")

    def __init__(
        self,
        cfg: Config,
        me: int,
        w: Worker,
        number: int,
        c: Chunk,
        j: Job,
        snapshot: int,
    ) -> None:
        self.cfg, self.me, self.w, self.number = cfg, me, w, number
        self.c, self.j, self.snapshot = c, j, snapshot

    @property
    def is_join(self) -> bool:
        return self.number == self.cfg.chunks

    @property
    def stages(self) -> int:
        return 1 if self.is_join else self.cfg.stages

    @property
    def owned(self) -> bool:
        """OWNED: status, gen, fence and token are all unchanged."""
        c = self.c
        if not self.cfg.has("ownership in settle"):
            return True
        owns = c.owner == self.me or not self.cfg.has("fence and token")
        return c.st == St.RUNNING and c.gen == self.w.gen and owns

    @property
    def has_stopped(self) -> bool:
        """An owner stops, by its own clock, before another worker may take over."""
        owns = self.c.owner == self.me and self.c.st == St.RUNNING
        return self.cfg.has("owner stops by its own clock") and not owns

    def to(self, label: str, c: Chunk | None = None, **facts: object) -> Step:
        """Continue with a step."""
        job = facts.pop("job", self.j)
        broken = str(facts.pop("broken", ""))
        fault = bool(facts.pop("fault", False))
        w = self.w._replace(**facts)  # type: ignore[arg-type]
        return Step(label, w, c or self.c, job, fault, broken)  # type: ignore[arg-type]

    def end(self, label: str, c: Chunk | None = None, **facts: object) -> Step:
        """End the work item."""
        facts |= {"pc": Pc.IDLE, "target": 0, "gen": 0, "stage": 0}
        return self.to(label, c, fresh=0, recovering=0, key_gen=0, **facts)

    def effect(self, **facts: object) -> Chunk:
        effects = list(self.c.effects)
        effects[self.w.stage] = effects[self.w.stage]._replace(**facts)  # type: ignore[arg-type]
        return self.c._replace(effects=tuple(effects))


def entered_stages(v: View, c: Chunk) -> int:
    """Return how many stages may need compensation: those entered before the pivot."""
    return min(c.cursor + 1, v.cfg.pivot, v.stages)


def is_compensation_requested(v: View) -> bool:
    """Return whether the cancel of a chunk compensates."""
    return v.c.cancel == 2 or (v.j.st == Js.CANCELLING and bool(v.j.compensates))


def pc_of_cancel(v: View) -> Pc:
    """Return how an owner stops for a cancel: at once, or after compensation."""
    return (
        Pc.SET_CANCEL
        if is_compensation_requested(v) and v.cfg.has("owner compensates")
        else Pc.CANCEL
    )
