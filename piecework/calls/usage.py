"""Report what calls cost: those that are paid for, and those that are replayed.

The dependency computes the usage from the answer. So an answer from the journal tells
what another call would have cost. If that function raises, only the bill lacks a part.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from piecework import telemetry
from piecework.calls.call import Call, CallCounts
from piecework.dependency import Dependency, Usage
from piecework.domain import values
from piecework.domain.budget import NANO
from piecework.domain.call_usage import CallUsage, UsageKind
from piecework.domain.effect import Effect
from piecework.errors import PermanentError
from piecework.errors.location import raised_text
from piecework.telemetry.emit import quiet_log

if TYPE_CHECKING:
    import structlog

A = TypeVar("A")

#: The most tokens or dollars of one call that are accepted; they are stored in records.
MAX_AMOUNT: Final = 1_000_000_000
#: Characters of a word of a provider, such as the reason for which a model stopped.
MAX_WORD: Final = 100
#: The source of an answer: the dependency, its lookup, the journal or the shared cache.
#: What a lookup finds was paid for, and not counted yet. A call that was cut off has no
#: answer, and may have been paid for.
AnswerSource: TypeAlias = Literal["paid", "found", "replayed", "cached", "cut_off"]
#: Called for each answer with its call, how it was answered, and its usage.
UsageHook: TypeAlias = Callable[[Call, AnswerSource, Usage], None]


def ignore_usage(call: Call, answered: AnswerSource, usage: Usage) -> None:
    """Do nothing: the hook where no cost is recorded."""
    del call, answered, usage


@dataclass(slots=True)
class ClaimUsage:
    """What the calls of one claim used, for the records that outlive the worker.

    Attributes:
        whole: All calls: the settlement stores them.
        pure: The paid and possibly paid calls without an effect. Each page of the
            journal has them all, so that a page that is written twice changes nothing.
        effects: The paid calls with an effect, by key: the ledger stores them.
        noted: How often `pure` was added to.
        stored: What `noted` was when `pure` was last stored.
    """

    whole: CallUsage = field(default_factory=CallUsage)
    pure: CallUsage = field(default_factory=CallUsage)
    effects: dict[str, CallUsage] = field(
        default_factory=lambda: defaultdict(CallUsage)
    )
    noted: int = 0
    stored: int = 0

    def note(
        self, call: Call, answered: AnswerSource, usage: Usage, *, also: int = 0
    ) -> None:
        """Add the usage of an answer; `also`: how many lost claims may have paid it."""
        kinds: list[UsageKind]
        match answered:
            case "found":
                kinds = ["paid"]
            case "cut_off":
                kinds = ["possibly_paid"]
            case _:
                kinds = [answered]
        parts = [self.whole]
        is_pure = call.dependency.effect is Effect.PURE
        if kinds == ["paid"]:
            parts.append(self.pure if is_pure else self.effects[call.key])
            kinds += ["possibly_paid"] * also
        elif answered == "cut_off":
            parts.append(self.pure)
        self.noted += any(each is self.pure for each in parts)
        for each in parts:
            add_usage(each, call.dependency.name, usage, kinds)


def add_usage(
    into: CallUsage, name: str, usage: Usage, kinds: Sequence[UsageKind] = ("paid",)
) -> None:
    """Add the usage of an answer; `name`: that of its dependency.

    What was paid for is also noted as free, or without a price, and as saved.
    """
    model, amounts = usage.model or name, [1, *usage.whole_amounts]
    found, saved = [*kinds], 0
    if kinds[0] == "paid":
        saved = round(usage.saved_usd * NANO)
        if usage.usd is not None and not amounts[-1]:
            found.append("free")
        elif (usage.tokens_in or usage.tokens_out) and not amounts[-1]:
            found.append("unpriced")
    for kind in found:
        into.add(kind, model, amounts)
    if saved:
        into.add("saved_by_tier", model, [*amounts[:-1], saved])


@dataclass(frozen=True, slots=True)
class UsageReporter:
    """Reports the usage of one claim's calls to a hook."""

    hook: UsageHook = ignore_usage
    log: structlog.stdlib.BoundLogger | None = None

    def report_paid(self, call: Call, answer: Any, counts: CallCounts) -> Usage:
        """Report a call that its dependency answered; return its usage."""
        counts.made += 1
        return self._report_paid(call, self._usage(call, lambda: answer))

    def report_found(self, call: Call, answer: Any, counts: CallCounts) -> Usage:
        """Report an answer that a lookup has found; return its usage."""
        counts.made += 1
        usage = self._usage(call, lambda: answer)
        self.hook(call, "found", usage)
        return usage

    def report_cut_off(self, call: Call) -> None:
        """Report an attempt of unknown end: as much as its estimate may be charged."""
        usage, dependency = Usage(), call.dependency
        if dependency.layer == "llm" or dependency.usage is not None:
            with suppress(PermanentError):
                usd = estimated_usd(dependency, call.bound) or None
                usage = Usage(estimated_tokens(dependency, call.bound), usd=usd)
        self.hook(call, "cut_off", usage)

    def report_failed(self, call: Call, usage: Usage, counts: CallCounts) -> Usage:
        """Report a call that failed although its dependency answered; return its usage.

        The answer was paid for, and then refused: the error has its usage.
        """
        counts.made += 1
        return self._report_paid(call, self._checked(call, lambda: usage))

    def _report_paid(self, call: Call, usage: Usage) -> Usage:
        self.hook(call, "paid", usage)
        return usage

    def report_reused(
        self, call: Call, text: str, answered: Literal["replayed", "cached"]
    ) -> None:
        """Report a call that was not paid for again; `text` is its encoded value."""
        usage = self._usage(call, lambda: values.decode(call.bound.func, text))
        self.hook(call, answered, usage)

    def _usage(self, call: Call, answer: Callable[[], Any]) -> Usage:
        """Return the usage of an answer; empty if it cannot be computed."""
        usage = call.dependency.usage
        if usage is None:
            return Usage()
        return self._checked(call, lambda: usage(answer()))

    def _checked(self, call: Call, usage: Callable[[], Any]) -> Usage:
        """Return a usage with plain numbers; empty if it cannot be computed."""
        try:
            return validated(usage())
        except Exception as error:  # noqa: BLE001 -- a user's function, about money
            log = self.log or quiet_log()
            name = call.dependency.name
            telemetry.emit(
                log, "usage.failed", dependency=name, error=type(error).__name__
            )
            return Usage()


def validated(usage: Any) -> Usage:
    """Return the usage with plain numbers: another library may count the tokens.

    Raises:
        TypeError: The value is not a Usage.
        ValueError: An amount is negative, or larger than `MAX_AMOUNT`.
    """
    if not isinstance(usage, Usage):
        message = f"`usage` returned a {type(usage).__name__}; it must return a Usage."
        raise TypeError(message)
    usd = None if usage.usd is None else float(usage.usd)
    plain = Usage(
        int(usage.tokens_in),
        int(usage.tokens_out),
        usd,
        str(usage.model),
        str(usage.response_model)[:MAX_WORD],
        str(usage.finish_reason)[:MAX_WORD],
        int(usage.cached_tokens_in),
        int(usage.cache_write_tokens_in),
        float(usage.saved_usd),
    )
    cached = plain.cached_tokens_in, plain.cache_write_tokens_in
    money = usd or 0.0, plain.saved_usd
    for amount in (plain.tokens_in, plain.tokens_out, *cached, *money):
        if not 0 <= amount <= MAX_AMOUNT:
            message = (
                f"A usage has the amount {amount}; keep it from 0 to {MAX_AMOUNT}."
            )
            raise ValueError(message)
    return plain


# ── tokens of a call before it is made ────────────────────────────────────────

#: Characters of a token, as providers explain it for English text.
CHARACTERS_PER_TOKEN: Final = 4
#: The argument that limits the tokens of an answer.
MAX_TOKENS: Final = "max_tokens"
#: Bytes of a request beside its arguments: headers, keys and the encryption.
REQUEST_BYTES: Final = 1024


def estimated_tokens(dependency: Dependency, bound: functools.partial[Any]) -> int:
    """Return about how many tokens a call uses, in and out; at least one.

    Raises:
        PermanentError: `runtime.quota.estimate_failed`: the dependency's `estimate`
            raised an error, or returned no whole number.
    """
    estimate = dependency.estimate
    if estimate is None:
        found = characters([bound.args, bound.keywords]) // CHARACTERS_PER_TOKEN
        return max(1, found + most_tokens(bound))
    return max(1, _estimated(dependency, "estimate", bound, operator.index))


def sent_bytes(call: Call, usage: Usage) -> int:
    """Return about how many bytes a call sent to its provider.

    These are the texts of its arguments, or its tokens where they are more: a function
    may send what it was not given.
    """
    bound = call.bound
    given = characters([bound.args, bound.keywords])
    return max(given, usage.tokens_in * CHARACTERS_PER_TOKEN) + REQUEST_BYTES


def estimated_usd(dependency: Dependency, bound: functools.partial[Any]) -> float:
    """Return about how many dollars a call costs; 0 without an estimate.

    Raises:
        PermanentError: `runtime.quota.estimate_failed`.
    """
    if dependency.estimate_usd is None:
        return 0.0
    return _estimated(dependency, "estimate_usd", bound, _amount)


def _amount(found: Any) -> float:
    if 0 <= float(found) <= MAX_AMOUNT:
        return float(found)
    raise ValueError(found)


def _estimated(
    dependency: Dependency,
    name: str,
    bound: functools.partial[Any],
    read: Callable[[Any], A],
) -> A:
    """Return what an estimate of the user says of a call."""
    code, about = "runtime.quota.estimate_failed", f"`{name}` of {dependency.name}"
    try:
        found = getattr(dependency, name)(*bound.args, **bound.keywords)
    except Exception as error:
        raise PermanentError(f"{about} {raised_text(error)}.", code=code) from error
    try:
        return read(found)
    except (TypeError, ValueError, OverflowError):
        shown = found if isinstance(found, (int, float)) else type(found).__name__
        message = f"{about} returned no amount: {shown}."
        raise PermanentError(message, code=code) from None


def most_tokens(bound: functools.partial[Any]) -> int:
    """Return `max_tokens` of a call, given or by default; 0: the call has none."""
    found = bound.keywords
    with suppress(TypeError, ValueError):  # no signature, or not these arguments
        given = inspect.signature(bound.func).bind_partial(*bound.args, **found)
        given.apply_defaults()
        found = {**given.arguments, **found}
    limit = found.get(MAX_TOKENS)
    return limit if type(limit) is int and limit > 0 else 0


def characters(value: Any) -> int:
    """Return the number of characters in the texts of a value."""
    parts: Iterable[Any]
    match value:
        case str():
            return len(value)
        case Mapping():
            parts = value.values()
        case list() | tuple() | set() | frozenset():
            parts = value
        case Enum():
            parts = [value.value]
        case BaseModel():
            parts = [vars(value), value.model_extra]
        case _ if is_dataclass(value):
            parts = [getattr(value, each.name, "") for each in fields(value)]
        case _:
            parts = getattr(value, "__dict__", {}).values()
    return sum(map(characters, parts))
