"""Model a worker's knowledge, and how it continues."""

from __future__ import annotations

from verification.model.state import Chunk, Config, Job, Js, Pc, St, Step, Worker


class At:
    """A worker (by its number, from 1), its chunk, the job, and the snapshot."""

    __slots__ = ("c", "census", "cfg", "j", "me", "number", "w")

    def __init__(
        self,
        cfg: Config,
        me: int,
        w: Worker,
        number: int,
        c: Chunk,
        j: Job,
        census: int,
    ) -> None:
        self.cfg, self.me, self.w, self.number = cfg, me, w, number
        self.c, self.j, self.census = c, j, census

    @property
    def is_join(self) -> bool:
        return self.number == self.cfg.chunks

    @property
    def stages(self) -> int:
        return 1 if self.is_join else self.cfg.stages

    @property
    def held(self) -> bool:
        """OWNED: status, gen, fence and token are all unchanged."""
        c = self.c
        if not self.cfg.has("held in settle"):
            return True
        ours = c.own == self.me or not self.cfg.has("fence and token")
        return c.st == St.RUNNING and c.gen == self.w.gen and ours

    @property
    def cut(self) -> bool:
        """An owner stops, by its own clock, before another worker may take over."""
        ours = self.c.own == self.me and self.c.st == St.RUNNING
        return self.cfg.has("cut by own clock") and not ours

    def to(self, label: str, c: Chunk | None = None, **facts: object) -> Step:
        """Continue with a step."""
        job = facts.pop("job", self.j)
        broken = str(facts.pop("broken", ""))
        fault = bool(facts.pop("fault", False))
        w = self.w._replace(**facts)  # type: ignore[arg-type]
        return Step(label, w, c or self.c, job, fault, broken)  # type: ignore[arg-type]

    def rest(self, label: str, c: Chunk | None = None, **facts: object) -> Step:
        """End the work item."""
        facts |= {"pc": Pc.IDLE, "target": 0, "gen": 0, "stage": 0}
        return self.to(label, c, fresh=0, winding=0, epoch=0, **facts)

    def effect(self, **facts: object) -> Chunk:
        effects = list(self.c.effects)
        effects[self.w.stage] = effects[self.w.stage]._replace(**facts)  # type: ignore[arg-type]
        return self.c._replace(effects=tuple(effects))


def entered(at: At, c: Chunk) -> int:
    """Return how many stages may need compensation: those entered before the pivot."""
    return min(c.cursor + 1, at.cfg.pivot, at.stages)


def is_compensation_requested(at: At) -> bool:
    """Return whether the cancel of a chunk compensates."""
    return at.c.asked == 2 or (at.j.st == Js.CANCELLING and bool(at.j.undoes))


def stopping(at: At) -> Pc:
    """Return how an owner stops for a cancel: at once, or after compensation."""
    return (
        Pc.WIND
        if is_compensation_requested(at) and at.cfg.has("holder winds back")
        else Pc.STOP
    )
