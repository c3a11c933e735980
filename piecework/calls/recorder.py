"""Record how the calls of a claim went, for those who look at its chunk.

The journal writes the records with its pages, and the settlement writes the rest. So a
record costs no request. Arguments are kept on purpose: those of calls whose answer was
refused, or that ended their chunk. The end of the claim writes them as one object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piecework.domain.call_record import (
    KEY_LENGTH,
    MOST_ATTEMPTS,
    NAME_LENGTH,
    CallEnd,
    CallRecord,
    FailedAttempt,
)
from piecework.domain.identity import function_text, function_words
from piecework.domain.kept_call import (
    CLAIM_BYTES,
    Keeps,
    KeptCall,
    Refused,
    arguments_text,
)
from piecework.errors.classify import refused_answer
from piecework.resilience.retry import Answered, Failed

if TYPE_CHECKING:
    from piecework.calls.call import Call
    from piecework.calls.usage import AnswerSource
    from piecework.dependency import Usage

#: Records that wait for a write, at most: the first ones are dropped.
MOST_WAITING = 1_000
#: Records on one page of the journal.
ON_A_PAGE = 100
_ENDS: dict[str, CallEnd] = {
    "paid": "made",
    "found": "found",
    "replayed": "replayed",
    "cached": "cached",
    "cut_off": "cut off",
}


@dataclass(slots=True)
class OpenCall:
    """A call that has not ended."""

    asked_at: float
    sent_at: float = 0.0
    end: CallEnd | None = None
    attempts: list[FailedAttempt] = field(default_factory=list)
    amounts: tuple[int, int, int] = (0, 0, 0)
    refused: list[Refused] = field(default_factory=list)


@dataclass(slots=True)
class CallRecorder:
    """The records of one claim's calls.

    Attributes:
        clock: The time in seconds since 1970.
        keeps: Which calls are kept with their arguments.
        waiting: The records that no row has yet.
        kept: The calls that are kept with their arguments.
    """

    clock: Callable[[], float]
    fence: int = 0
    keeps: Keeps = "failed"
    waiting: list[CallRecord] = field(default_factory=list)
    kept: list[KeptCall] = field(default_factory=list)
    _kept_bytes: int = 0
    _open: dict[str, OpenCall] = field(default_factory=dict)

    def begin(self, call: Call) -> None:
        """Note that a stage asks for a call."""
        self._open[call.key] = OpenCall(self.clock())

    def note_sent(self, call: Call) -> None:
        """Note that an attempt is sent."""
        if (found := self._open.get(call.key)) is not None:
            found.sent_at = found.sent_at or self.clock()

    def note_failure(self, call: Call, failed: Failed, delay: float) -> None:
        """Note that an attempt failed; `delay`: seconds until the next one."""
        found, code = self._open.get(call.key), failed.envelope.code
        if found is not None and len(found.attempts) < MOST_ATTEMPTS:
            found.attempts.append(FailedAttempt(code, round(delay * 1000)))
            if (refused := refused_answer(failed.error)) is not None:
                found.refused.append(Refused(refused[0], code, refused[1]))

    def note_usage(self, call: Call, answered: AnswerSource, usage: Usage) -> None:
        """Note from where an answer came, and what it used."""
        if (found := self._open.get(call.key)) is not None:
            found.end = _ENDS[answered]
            spent = zip(found.amounts, usage.whole_amounts, strict=True)
            tokens_in, tokens_out, nano_usd = (a + b for a, b in spent)
            found.amounts = tokens_in, tokens_out, nano_usd

    def end(self, call: Call, end: Answered[str] | Failed | None) -> None:
        """Record how a call ended; None: it was cut off, or its end is not known.

        A call that was held back, and never sent, leaves no record.
        """
        found = self._open.pop(call.key, None)
        if found is None or (end is None and not found.sent_at):
            return
        how: CallEnd = "cut off" if end is None else "failed"
        if isinstance(end, Answered):
            how = found.end or "made"
        code = end.envelope.code if isinstance(end, Failed) else ""
        kept = self._keep(call, end, found.refused)
        now, asked = self.clock(), found.asked_at
        record = CallRecord(
            call.key[:KEY_LENGTH],
            self.fence,
            how,
            call.scope.stage,
            call.dependency.name[:NAME_LENGTH],
            name_of(call),
            round(asked * 1000),
            round(max(0.0, (found.sent_at or asked) - asked) * 1000),
            round(max(0.0, now - asked) * 1000),
            code,
            tuple(found.attempts),
            *found.amounts,
            kept,
        )
        self.waiting.append(record)
        if len(self.waiting) > MOST_WAITING:
            del self.waiting[0]

    def _keep(
        self, call: Call, end: Answered[str] | Failed | None, refused: list[Refused]
    ) -> bool:
        """Keep a call with its arguments, if that is wanted."""
        keeps = call.dependency.record_calls or self.keeps
        failed = end if isinstance(end, Failed) else None
        if keeps == "none" or (keeps == "failed" and not (refused or failed)):
            return False
        function, bound = call.bound.func, call.bound
        kept = KeptCall(
            call.key[:KEY_LENGTH],
            arguments_text(function, bound.args, bound.keywords),
            end.value if isinstance(end, Answered) else "",
            refused,
            *((failed.envelope.code, failed.envelope.message) if failed else ("", "")),
            always=keeps == "all" or bool(refused),
        )
        if self._kept_bytes + kept.bytes > CLAIM_BYTES:
            return False
        self._kept_bytes += kept.bytes
        self.kept.append(kept)
        return True

    def kept_at_end(self, *, dead: bool) -> list[KeptCall]:
        """Return the calls to keep; `dead`: whether the chunk ends as a dead letter."""
        return [each for each in self.kept if dead or each.always]

    def next_page(self) -> list[CallRecord]:
        """Return the records for the next page of the journal."""
        return self.waiting[:ON_A_PAGE]

    def written(self, records: int) -> None:
        """Forget so many records: a page has them."""
        del self.waiting[:records]


def name_of(call: Call) -> str:
    """Return the name of the called function, as a list has room for it."""
    text = function_text(call.bound.func)
    return function_words(text, with_version=False)[:NAME_LENGTH]
