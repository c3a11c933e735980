"""The scenarios: what is submitted, and what people do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from piecework.pipeline import Pipeline
from simulation.crash_points.pipelines import Customer, counting, travel
from simulation.crash_points.play import Play
from simulation.crash_points.six import six, wrongly_undone


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        kinds: What befalls the customers, in turn.
        beside: Whether reconcilers run beside the workers, or one by itself.
        steps: Whether workers are struck at each step of their loop, too: at each
            `await`. One customer of a kind is enough for that.
        check: Yields what is wrong at the end, beyond what no end may have.
    """

    pipeline: Pipeline
    kinds: Sequence[str]
    acts: Callable[[Play], Awaitable[None]]
    beside: bool
    steps: bool = False
    check: Callable[[Play], Iterable[str]] = lambda _: ()

    def customers(self, chunks: int) -> list[Customer]:
        """Return the payloads of a job."""
        kinds = self.kinds
        most = len(kinds) if self.steps else chunks
        return [
            Customer(n=n, kind=kinds[n % len(kinds)]) for n in range(min(chunks, most))
        ]


async def through(play: Play) -> None:
    """Submit, and wait for the end."""
    await play.submit()
    await play.come_to_an_end()


async def redriven(play: Play) -> None:
    """Redrive what has died."""
    await play.uncounted(through(play))
    await play.redrive()
    await play.come_to_an_end()


async def cancelled(play: Play) -> None:
    """Submit, and cancel half-way."""
    await play.submit()
    await play.cancel(compensate=False)
    await play.come_to_an_end()


async def undone(play: Play) -> None:
    """Submit, cancel half-way, and have undone what was done."""
    await play.submit()
    await play.cancel(compensate=True)
    await play.come_to_an_end()


async def resumed(play: Play) -> None:
    """Resume what was cancelled."""
    await play.uncounted(cancelled(play))
    await play.resume()
    await play.come_to_an_end()


async def redone(play: Play) -> None:
    """Resume what was undone."""
    await play.uncounted(undone(play))
    await play.resume()
    await play.come_to_an_end()


def the_book_of_six(play: Play) -> Iterable[str]:
    """Yield what the outside's book should not say of the six steps."""
    return wrongly_undone(play.customers, play.town.history)


COUNTED = ("", "analyse:thrice", "analyse:refused", "", "", "", "")
HELD = ("", "analyse:held", "analyse:later", "", "analyse:held", "")
BOOKED = ("hotel:refused", "pay:refused", "write:refused", "", "", "", "")
THOUGHT = ("hotel:thinking", "", "hotel:later", "write:thinking", "", "hotel:thinking")
#: A booking that is under way is waited for before it is undone; one is enough.
BEGUN = ("hotel:held", *THOUGHT * 4)

#: The last of six steps is refused, the third one is; and nothing happens.
SIX = ("cover:refused", "car:refused", "")
#: The first three are done when the job is cancelled.
SIX_LATER = ("seat:later",)

SCENARIOS = {
    "plain": Scenario(counting, COUNTED, through, beside=True),
    "saga": Scenario(travel, BOOKED, through, beside=False),
    "redrive": Scenario(travel, BOOKED, redriven, beside=True),
    "cancel": Scenario(counting, HELD, cancelled, beside=True),
    "resume": Scenario(counting, HELD, resumed, beside=False),
    "undo": Scenario(travel, BEGUN, undone, beside=False),
    "redo": Scenario(travel, BEGUN, redone, beside=True),
    "six": Scenario(six, SIX, through, beside=False, steps=True, check=the_book_of_six),
    "six-undo": Scenario(
        six, SIX_LATER, undone, beside=False, steps=True, check=the_book_of_six
    ),
}
