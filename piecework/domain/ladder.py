"""The escalation ladder of a pipeline: what happens to its failed chunks, and when.

retry of a call       at once, by `Dependency(retry=…)`
next attempt          later, by `Ladder(retry_after_s=…)`
dead letter           when the attempts are spent, or the error is permanent
rungs                 at their times after the dead letter, while it is open
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import LONGEST_WAIT_S, iso, moment

#: A letter with more rungs would make each of its writes dearer.
MAX_RUNGS = 10


@dataclass(frozen=True, slots=True)
class Escalation:
    """A dead letter has reached a rung: what its hook receives.

    Attributes:
        rung: The name of the rung.
        label: The label of the chunk; empty: it has none.
        error: The message of the last error.
        fingerprint: Equal for dead letters of the same cause: one ticket for a cause
            uses it as its key.
        dead_lettered_at: ISO 8601, UTC.
        idempotency_key: The same for each call of this rung for this dead letter.
    """

    tenant: str
    job: str
    chunk: int
    gen: int
    pipeline: str
    rung: str
    label: str
    stage: str
    error_code: str
    error: str
    fingerprint: str
    compensation: str
    owner: str
    runbook: str
    dead_lettered_at: str
    idempotency_key: str


#: A worker that has the pipeline awaits it at least once for each rung with a hook.
EscalationHook: TypeAlias = Callable[[Escalation], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder.

    Attributes:
        name: Unique in its ladder.
        hook: Is awaited when a dead letter reaches the rung; None: the rung is only an
            event, which webhooks may subscribe to.
        after_s: Seconds from the dead letter to the rung.
    """

    name: str
    hook: EscalationHook | None = None
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """The escalation of a pipeline.

    Attributes:
        rungs: In the order of their times.
        retry_after_s: Seconds before the second attempt of a chunk, before the third,
            and so on. The last one holds for all further attempts. Empty: a random
            delay that doubles with each attempt, 300 s at most.
    """

    rungs: Sequence[Rung] = ()
    retry_after_s: Sequence[float] = ()

    def rung(self, name: str) -> Rung | None:
        """Return a rung by its name."""
        return next((rung for rung in self.rungs if rung.name == name), None)

    def retry_delay_s(self, attempt: int) -> float | None:
        """Return the seconds after a failed attempt, from 1; None: not declared."""
        if not self.retry_after_s:
            return None
        return self.retry_after_s[min(attempt, len(self.retry_after_s)) - 1]

    def errors(self) -> list[str]:
        """Return what is wrong with a ladder, each as a clause."""
        names = [rung.name for rung in self.rungs]
        times = [rung.after_s for rung in self.rungs]
        seconds = [*times, *self.retry_after_s]
        found = [
            f"the rung {name!r} may hold letters, digits, '-' and '_' (64 at most)"
            for name in names
            if not keys.is_name(name)
        ]
        if len(set(names)) < len(names):
            found.append("two rungs of its ladder have the same name")
        if len(names) > MAX_RUNGS:
            found.append(f"its ladder has more than {MAX_RUNGS} rungs")
        if not all(0 <= each <= LONGEST_WAIT_S for each in seconds):
            found.append("a time of its ladder is not a number of seconds from 0")
        elif times != sorted(times):
            found.append("the rungs of its ladder are not in the order of their times")
        found += [
            f"the hook of the rung {rung.name!r} is not an `async def`"
            for rung in self.rungs
            if rung.hook is not None and not iscoroutinefunction(rung.hook)
        ]
        return found


# ── the rungs of one dead letter ──────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LetterRung:
    """A rung as a dead letter stores it; the declaration may change meanwhile.

    Attributes:
        due_at: When the dead letter reaches it, ISO 8601.
        has_hook: Whether a worker calls a hook.
        call_at: When the next call of the hook may start, ISO 8601: during a call, when
            its worker counts as dead.
        calls: How often a worker began to call the hook.
        reached_at: When it was reached, or its hook had returned; empty: not yet.
        error: Why the last call failed; after `reached_at`: why the hook was abandoned.
    """

    name: str
    due_at: str
    has_hook: bool = False
    call_at: str = ""
    calls: int = 0
    reached_at: str = ""
    error: str = ""

    @property
    def item(self) -> dict[str, Any]:
        """The attributes that are stored and shown."""
        facts = {
            "rung": self.name,
            "due_at": self.due_at,
            "has_hook": self.has_hook,
            "call_at": self.call_at,
            "calls": self.calls,
            "reached_at": self.reached_at,
            "error": self.error,
        }
        return {name: value for name, value in facts.items() if value}

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> LetterRung:
        """Return a rung from its attributes."""
        facts = dict(item)
        return cls(name=facts.pop("rung"), **facts)


@dataclass(frozen=True, slots=True)
class Climb:
    """How far a dead letter has climbed.

    Attributes:
        rungs: All rungs; those before `position` were reached.
        wake_at: When a process looks at it next, ISO 8601; empty: the last rung was
            reached.
        version: Raised by each write.
    """

    rungs: tuple[LetterRung, ...]
    position: int = 0
    wake_at: str = ""
    version: int = 1

    @classmethod
    def start(cls, ladder: Ladder, now: float) -> Climb | None:
        """Return the climb of a new dead letter; None: the ladder has no rung."""
        rungs = tuple(
            LetterRung(rung.name, iso(now + rung.after_s), rung.hook is not None)
            for rung in ladder.rungs
        )
        return cls(rungs, wake_at=rungs[0].due_at) if rungs else None

    @classmethod
    def of(cls, letter: DeadLetterRow) -> Climb | None:
        """Return the climb of a dead letter; None: it has no ladder."""
        if "ladder" not in letter.item:
            return None
        rungs = tuple(LetterRung.read(item) for item in letter.item["ladder"])
        return cls(
            rungs,
            letter.item["rung"],
            letter.item.get("rung_wake_at", ""),
            letter.item["ladder_version"],
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The attributes of the dead letter."""
        return {
            "ladder": [rung.item for rung in self.rungs],
            "rung": self.position,
            "rung_wake_at": self.wake_at or None,
            "ladder_version": self.version,
        }

    @property
    def next(self) -> LetterRung | None:
        """The rung that was not reached yet; None: all were."""
        return self.rungs[self.position] if self.position < len(self.rungs) else None

    def waiting(self, until: float, **changes: Any) -> Climb:
        """Return it with the next look at `until`, and with changes of its rung."""
        rung = replace(self.rungs[self.position], **changes)
        rungs = (*self.rungs[: self.position], rung, *self.rungs[self.position + 1 :])
        version = self.version + 1
        return replace(self, rungs=rungs, wake_at=iso(until), version=version)

    def is_callable(self, now: float) -> bool:
        """Return whether the hook of the next rung is due, and no worker calls it."""
        rung = self.next
        if rung is None or not rung.has_hook:
            return False
        return now >= moment(max(rung.due_at, rung.call_at))

    def calling(self, now: float, seconds: float) -> Climb:
        """Return it with a call of the hook that ends within `seconds`."""
        until, calls = now + seconds, self.rungs[self.position].calls + 1
        return self.waiting(until, call_at=iso(until), calls=calls)

    def reached(self, now: float, error: str = "") -> Climb:
        """Return it after its rung; `error`: why the hook was abandoned."""
        done = self.waiting(now, reached_at=iso(now), call_at="", error=error)
        position = self.position + 1
        left = done.rungs[position:]
        return replace(done, position=position, wake_at=left[0].due_at if left else "")


def escalation_of(letter: DeadLetterRow, rung: str) -> Escalation:
    """Return what the hook of a rung receives."""
    ref, item = letter.ref, letter.item
    return Escalation(
        tenant=ref.tenant,
        job=ref.job,
        chunk=ref.chunk,
        gen=letter.gen,
        pipeline=letter.pipeline,
        rung=rung,
        label=str(item.get("label", "")),
        stage=letter.stage,
        error_code=letter.error_code,
        error=letter.error,
        fingerprint=letter.fingerprint,
        compensation=letter.compensation,
        owner=str(item.get("owner", "")),
        runbook=str(item.get("runbook", "")),
        dead_lettered_at=letter.dead_lettered_at,
        idempotency_key=keys.rung_key(ref.tenant, ref.job, ref.chunk, letter.gen, rung),
    )
