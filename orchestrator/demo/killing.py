"""The killing: which worker, with what in hand, and who goes on with it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from orchestrator.demo.children import Child
from orchestrator.demo.takeover import (
    CHECKPOINTED,
    PAYING,
    Held,
    Takeover,
    in_hand,
    in_mid_chunk,
    taken_over,
)
from orchestrator.demo.watch import Look, Watch

#: Chunks that have ended before a worker is killed, so that the job is in full swing,
#: and after which the choice of the worker gets less particular.
IN_SWING, LATE = 7, 11


@dataclass(slots=True)
class Death:
    """A killed worker, the chunks that it had in hand, and who has them now.

    Attributes:
        paid_twice: Calls that the model had answered twice by then.
    """

    worker: Child
    at: float
    paid_twice: int
    held: list[Held]
    takeovers: list[Takeover] = field(default_factory=list)

    @property
    def waiting(self) -> list[Held]:
        """The chunks that nobody has taken over yet."""
        done = {takeover.held for takeover in self.takeovers}
        return [held for held in self.held if held not in done]


async def kill_one(watch: Watch, workers: Sequence[Child], rng: Random) -> Death:
    """Kill a worker with SIGKILL while the table says that it is in mid-chunk.

    It is frozen first, so that what the table says still holds when it is killed.
    """
    pids = {worker.pid: worker for worker in workers}

    def candidates(look: Look) -> list[int]:
        stages = CHECKPOINTED if look.ended < LATE else PAYING
        return in_mid_chunk(look.chunks, pids, stages) if look.ended >= IN_SWING else []

    frozen: list[int] = []
    while not frozen:
        look = await watch.until(
            lambda look: bool(candidates(look)), "a worker is in mid-chunk"
        )
        worker = pids[rng.choice(candidates(look))]
        worker.signal(signal.SIGSTOP)
        frozen = in_mid_chunk((await watch.look()).chunks, [worker.pid])
        if not frozen:
            worker.signal(signal.SIGCONT)
    watch.machine.dismissed.add(worker.name)
    worker.signal(signal.SIGKILL)
    at = watch.rt.clock()
    await worker.gone()
    # What it had sent before may still have been written: so the table is asked again.
    look = await watch.look()
    held = in_hand(look.chunks, worker.pid)
    said = ", ".join(f"{h.chunk} ({h.stage})" for h in held)
    watch.screen.say(
        "kill",
        f"SIGKILL to {worker.name} (pid {worker.pid}) with chunks in hand: {said}",
    )
    return Death(worker, at, look.model.answered_twice, held)


def tell_takeovers(watch: Watch, death: Death, look: Look) -> None:
    """Tell which chunks of the dead worker others have claimed since the last look."""
    fresh = taken_over(death.waiting, look.chunks, look.at - death.at)
    for takeover in fresh:
        held = takeover.held
        by = takeover.by or watch.logs.claimed.get((held.chunk, held.fence + 1), "")
        watch.screen.say(
            "takeover",
            f"chunk {held.chunk}: {death.worker.name} -> "
            f"{watch.machine.name_of(by) or 'another'} after {takeover.seconds:.1f} s, "
            f"goes on in {held.stage}",
        )
    death.takeovers += fresh
