"""Hold a new effect until its stage has asked for what earlier claims did.

Newer code may make a call under another key: with an argument more, or as a function of
another module. The ledger then does not know that the call has happened. But the stage
has not asked for its old entry yet. So an effect without an entry waits until it has
asked for the entries of earlier claims. If the stage can make no other progress, the
chunk stops before anything is sent (`runtime.code.changed`). It stops at the end of the
stage, too, if it has not asked for an entry.

    effect of this stage                    holds each effect, and calls of its function
    effect of a stage that has not completed     holds calls like it
    effect of a compensation that has not ended  holds equal calls of compensations
    pure call of this stage that was answered    holds effects like it

Calls are alike if they have the same function or the same dependency. No order of calls
is demanded. A claim without entries of earlier claims holds nothing.

A stage that has completed asks for nothing any more. So an effect that another version
made in it stops an equal one without an entry: a helper may have carried the call into
a later stage. Both stages may make it if they name its function in each known version.

A call that was refused, or never sent, is a new effect: another version may have made
it since, under another key. What the version that was refused did itself is another
act. So is what had happened before: the refused call was not held then.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from piecework.calls.call import Call
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.happened import DIGEST_LENGTH
from piecework.domain.identity import function_text, function_words, path_of

#: Seconds without a call after which a stage with held calls makes no other progress:
#: it may sleep, or wait for something else than its calls.
QUIET_S = 10.0
#: Entries that a message names at most.
SHOWN = 3
#: The function, the dependency and the beginning of the digest of the arguments.
Act: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call of an earlier claim.

    Attributes:
        function: The text that stands for the called function in keys.
        state: `INTENT`, `DONE` or `UNKNOWN`; empty: it was pure, and was answered.
            Of a refused call: `REFUSED` or `COMPENSATED`.
        made_by: The code version of its claim, or the claim; empty: not known.
        at: When it began, ISO 8601; empty: it is not known.
        arguments: The beginning of the digest of its arguments; empty: not known.
        is_over: Whether its stage has completed.
    """

    stage: str
    function: str
    dependency: str
    state: str = ""
    made_by: str = ""
    at: str = ""
    arguments: str = ""
    is_over: bool = False

    @property
    def act(self) -> Act:
        """What it did, in whichever stage."""
        return self.function, self.dependency, self.arguments

    def is_like(self, call: Call) -> bool:
        """Return whether a call may be this one under another key."""
        same = self.dependency and self.dependency == call.dependency.name
        return bool(same) or self.function == function_text(call.bound.func)

    def holds(self, call: Call) -> bool:
        """Return whether a call without an entry waits for this one."""
        is_effect = call.dependency.effect is not Effect.PURE
        if not self.state:
            here = self.stage == call.scope.stage
            return is_effect and here and self.is_like(call)
        if self.stage == call.scope.stage:
            same = self.function == function_text(call.bound.func)
            return is_effect or same
        undoes = keys.is_compensation_stage(self.stage)
        if undoes != keys.is_compensation_stage(call.scope.stage):
            return False
        # A compensation that has not ended may have moved to another stage.
        return is_effect and (
            self.act == act_of(call) if undoes else self.is_like(call)
        )

    def is_other_than(self, refused: EarlierCall) -> bool:
        """Return whether it cannot be the act of a call that was refused."""
        same = bool(self.made_by) and self.made_by == refused.made_by
        return same or "" < self.at < refused.at

    @property
    def words(self) -> str:
        """The call in words."""
        of = f" of {self.dependency!r}" if self.dependency else ""
        return f"{function_words(self.function)}{of} ({self.state or 'answered'})"


@dataclass(slots=True)
class EarlierCalls:
    """What earlier claims of a chunk did, and what this claim has not asked for yet.

    Attributes:
        known: The keys of the calls of earlier claims that happened, or may have.
        refused: Those that did not happen, by key.
        unasked: Those that this claim has not asked for yet, by key.
        over: The effects of other versions in stages that have completed.
        named: The stages, each with a function that it names in each known version.
        held: The calls that wait.
    """

    known: frozenset[str] = frozenset()
    refused: Mapping[str, EarlierCall] = field(default_factory=dict)
    unasked: dict[str, EarlierCall] = field(default_factory=dict)
    over: dict[Act, list[EarlierCall]] = field(default_factory=dict)
    named: frozenset[tuple[str, str]] = frozenset()
    held: int = 0
    _new: Counter[tuple[str, str]] = field(default_factory=Counter)
    _change: asyncio.Future[None] | None = None

    def load(
        self,
        known: frozenset[str],
        refused: Mapping[str, EarlierCall],
        unasked: Mapping[str, EarlierCall],
    ) -> None:
        """Load what earlier claims did."""
        self.known, self.refused, self.unasked = known, refused, dict(unasked)

    def load_over(
        self, over: Iterable[EarlierCall], named: frozenset[tuple[str, str]]
    ) -> None:
        """Load what other versions did in stages that have completed."""
        self.named = named
        for each in over:
            self.over.setdefault(each.act, []).append(each)

    @property
    def holds_calls(self) -> bool:
        """Whether a call may have to wait."""
        return bool(self.unasked or self.over)

    def note_asked(self, key: str) -> None:
        """Note that a call is asked for."""
        if self.unasked:
            self.unasked.pop(key, None)
            self.wake()

    def note_made(self, call: Call) -> None:
        """Note that a pure call without an answer of earlier claims is made."""
        if self.unasked and call.key not in self.known:
            self._new[call.scope.stage, call.dependency.name] += 1

    @property
    def paid_again(self) -> int:
        """The pure calls that are paid for again: their old answers are not asked for.

        Of each stage and dependency, as many calls as it has old answers.
        """
        old = Counter(
            (each.stage, each.dependency)
            for each in self.unasked.values()
            if not each.state
        )
        return (old & self._new).total()

    def blocking(self, call: Call) -> list[EarlierCall]:
        """Return the earlier calls for which a call waits."""
        if call.key in self.known:
            return []
        left = [each for each in self.unasked.values() if each.holds(call)]
        left += self._done_elsewhere(call)
        if (refused := self.refused.get(call.key)) is not None:
            return [each for each in left if not each.is_other_than(refused)]
        return left

    def _done_elsewhere(self, call: Call) -> list[EarlierCall]:
        """Return the equal effects of stages that have completed."""
        here = call.scope.stage
        is_effect = call.dependency.effect is not Effect.PURE
        if not self.over or not is_effect or keys.is_compensation_stage(here):
            return []
        path = path_of(call.bound.func)
        return [
            each
            for each in self.over.get(act_of(call), [])
            if not {(each.stage, path), (here, path)} <= self.named
        ]

    def left_in(self, stage: str) -> list[EarlierCall]:
        """Return the effects of a stage that it has not asked for."""
        left = self.unasked.values()
        return [each for each in left if each.state and each.stage == stage]

    def start_compensating(self) -> None:
        """Forget the calls of the stages: they go no further."""
        self.over = {}
        self.unasked = {
            key: each
            for key, each in self.unasked.items()
            if keys.compensated_stage(each.stage)
        }
        self.wake()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Count a call that waits."""
        self.held += 1
        self.wake()
        try:
            yield
        finally:
            self.held -= 1

    def wake(self) -> None:
        """Let the calls that wait look again."""
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)

    async def changed(self, seconds: float | None) -> bool:
        """Return True at the next change; False: there was none for so long."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._change], timeout=seconds)
        return bool(done)


def act_of(call: Call) -> Act:
    """Return what a call does, in whichever stage."""
    function = function_text(call.bound.func)
    return function, call.dependency.name, call.digest[:DIGEST_LENGTH]


def site_text(call: Call) -> str:
    """Return what a call called, as the journal keeps it."""
    function = function_text(call.bound.func)
    return json.dumps([call.scope.stage, call.dependency.name, function])


def call_at(site: str) -> EarlierCall:
    """Return the call of a site, which was pure."""
    stage, dependency, function = json.loads(site)
    return EarlierCall(stage, function, dependency)


def would_repeat(call: Call, left: list[EarlierCall]) -> str:
    """Return the message of a chunk that stops before a call."""
    about = function_words(function_text(call.bound.func))
    begins = (
        f"The code of the chunk has changed: stage {call.scope.stage!r} is about to "
        f"call {about} of {call.dependency.name!r}"
    )
    if over := [each for each in left if each.is_over]:
        return (
            f"{begins}, and another version did that with equal arguments in stage "
            f"{over[0].stage!r}, which has completed: {listed(over)}. "
            "The call may be the same act."
        )
    return (
        f"{begins}, and it has not asked for what an earlier claim did: "
        f"{listed(left)}. The call may be the same act."
    )


def was_not_asked(stage: str, left: list[EarlierCall]) -> str:
    """Return the message of a chunk that stops at the end of a stage."""
    return (
        f"The code of the chunk has changed: stage {stage!r} is at its end, and it has "
        f"not asked for what an earlier claim did: {listed(left)}."
    )


def listed(left: list[EarlierCall]) -> str:
    """Return the first calls in words, and how many there are besides."""
    counted = Counter(each.words for each in left)
    parts = [f"{n} x {text}" if n > 1 else text for text, n in counted.items()]
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more
