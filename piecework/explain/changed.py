"""What newer code would do to a stopped chunk, beside what earlier claims did.

A chunk stops with `runtime.code.changed` before anything is sent. Its ledger has what
the code before it did. The error on record names the call that was about to be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from piecework.domain.chunk import Chunk
from piecework.domain.effect import Effect
from piecework.domain.identity import function_words
from piecework.domain.outcome import CHANGED_CODE
from piecework.domain.states import ChunkStatus
from piecework.store.checkpoints import Work
from piecework.store.effects import MAY_HAVE_HAPPENED

#: States of a chunk that newer code has stopped.
STOPPED: Final = frozenset({ChunkStatus.WAITING, ChunkStatus.DEAD})

#: What the new code does to an act, if an operator accepts the change: by its state, or
#: by its kind while it is in progress.
ACCEPTED: Final = {
    "DONE": "It has happened. The new code does not know that, and may do it again.",
    "UNKNOWN": "It may have happened. The new code may do it again; "
    "`piecework effects list` lists it until you resolve it.",
    "INTENT": "It may have happened, and its provider knows its key. The new code "
    "sends another key, and may do it again.",
    "once": "It may have happened, and cannot be asked for. The new code may do it "
    "again; `piecework effects list` lists it until you resolve it.",
    "": "It was answered. The new code pays for it again.",
}


#: The way out that repeats no act, as findings and commands name it.
OLD_MAY_RUN: Final = "Workers of the version before may run again: they go on."


def accept_command(job: str) -> str:
    """Return the command that says what it does to let newer code go on."""
    return f"piecework jobs accept-changes {job} --dry-run"


@dataclass(frozen=True, slots=True)
class Act:
    """What an earlier claim did; see `acts_of`.

    Attributes:
        state: `INTENT`, `DONE` or `UNKNOWN`; empty: a pure call that was answered.
        effect: The kind that was declared; empty: pure.
        at: When it began; empty: not known.
    """

    stage: str
    function: str
    dependency: str
    state: str
    effect: str = ""
    at: str = ""

    @property
    def accepted(self) -> str:
        """What the new code does to it, if an operator accepts the change."""
        once = self.state == "INTENT" and self.effect == Effect.NON_IDEMPOTENT
        return ACCEPTED["once" if once else self.state]

    @property
    def document(self) -> dict[str, Any]:
        """The act as a document."""
        return {
            "stage": self.stage,
            "called": function_words(self.function) if self.function else "",
            "dependency": self.dependency,
            "state": self.state or "ANSWERED",
            "effect": self.effect or str(Effect.PURE),
            "at": self.at,
        }


def is_stopped(chunk: Chunk) -> bool:
    """Return whether newer code has stopped a chunk."""
    return chunk.status in STOPPED and chunk.error_code == CHANGED_CODE


def is_held_again(chunk: Chunk) -> bool:
    """Return whether a worker has a stopped chunk again, and no stage has completed."""
    begins = chunk.started_at == chunk.claimed_at
    running = chunk.status is ChunkStatus.RUNNING
    return running and begins and chunk.error_code == CHANGED_CODE


def acts_of(work: Work, gen: int) -> Iterator[Act]:
    """Yield what earlier claims did in stages that have not completed.

    Without an effect in one of them, yield the effects of the completed stages: the new
    code has moved one of them.
    """
    from piecework.calls.earlier import call_at  # loads pydantic

    completed = work.complete_stages(gen)
    effects = [row for row in work.effects if row.state in MAY_HAVE_HAPPENED]
    open_ = [row for row in effects if row.stage not in completed]
    for row in open_ or effects:
        called = row.called, row.dependency
        yield Act(row.stage, *called, row.state, row.effect, row.started_at)
    for page in work.calls:
        for site in page.read_sites().values():
            call = call_at(site)
            if call.stage not in completed:
                yield Act(call.stage, call.function, call.dependency, "")


def stop_document(chunk: Chunk, work: Work) -> dict[str, Any]:
    """Return what the old code did in a stopped chunk, and what stops the new one."""
    errors = [row for row in work.errors if row.failure.code == CHANGED_CODE]
    acts = sorted(acts_of(work, chunk.gen), key=lambda act: act.at)
    return {
        "chunk": chunk.ref.chunk,
        "stage": chunk.stage,
        "before": [act.document for act in acts if act.state],
        "answered": sum(not act.state for act in acts),
        "now": errors[-1].failure.message if errors else "",
    }


def counted(
    acts: Iterable[Act], name: str, becomes: Callable[[Act], str]
) -> list[dict[str, Any]]:
    """Return the kinds of acts, how many there are, and under a name what each becomes.

    Times are left out: the acts of a kind have different ones.
    """
    kinds = Counter(
        (act.stage, act.function, act.dependency, act.state, act.effect) for act in acts
    )
    found = []
    for kind, number in sorted(kinds.items()):
        act = Act(*kind)
        told = {n: v for n, v in act.document.items() if n != "at"}
        found.append(told | {"number": number, name: becomes(act)})
    return found
