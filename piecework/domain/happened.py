"""What the ledger knows about the calls of a stage, as its compensation asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeAlias

from typing_extensions import TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Happened(Generic[R]):
    """The call was executed.

    Attributes:
        answer: What it returned.
    """

    answer: R


@dataclass(frozen=True, slots=True)
class NotHappened:
    """The call was refused, was never sent, or is compensated already."""


@dataclass(frozen=True, slots=True)
class MayHaveHappened:
    """The call was sent, and the ledger has no answer of it.

    Its answer was lost, or could not be stored (`runtime.value.unserialisable`).
    """


#: The answer of `ctx.happened`.
Occurrence: TypeAlias = Happened[R] | NotHappened | MayHaveHappened


#: The characters of a digest that tell the calls of a stage apart on their rows.
DIGEST_LENGTH: Final = 16


class EffectEnd(StrEnum):
    """What is known about an effect."""

    HAPPENED = "happened"
    NOT_HAPPENED = "did not happen"
    IN_DOUBT = "may have happened"


@dataclass(frozen=True, slots=True)
class KnownEffect:
    """An effect of a stage, as the ledger knows it.

    Attributes:
        function: The text that stands for the called function in keys.
        arguments: The beginning of the digest of its arguments.
        answer: Its answer as JSON; None: there is none, or it cannot be read.
        by_other: Whether another version made it, which no operator has accepted.
        is_named: Whether the functions of its stage name its function now.
    """

    stage: str
    function: str
    arguments: str
    end: EffectEnd
    answer: str | None = None
    by_other: bool = False
    is_named: bool = False


@dataclass(slots=True)
class Questions:
    """What a compensation has asked for.

    Attributes:
        found: The effects that were found.
        missed: The functions of questions that found none.
    """

    found: list[KnownEffect] = field(default_factory=list)
    missed: set[str] = field(default_factory=set)

    def note(self, functions: Collection[str], found: Collection[KnownEffect]) -> None:
        """Note a question, and what it found."""
        self.found += found
        self.missed |= set() if found else set(functions)

    def passed_over(
        self, effects: Iterable[KnownEffect], stage: str
    ) -> list[KnownEffect]:
        """Return what may be the act of a question that found none.

        Newer code asks for the call as it would make it: under another name, say, or
        with an argument more. Then the effect of the earlier code is not found. It is
        not the one that was meant if another question found it, or if the stage still
        names its function, and no question asked for that.
        """
        return [
            each
            for each in effects
            if each.stage == stage
            and each.by_other
            and each.end is not EffectEnd.NOT_HAPPENED
            and each not in self.found
            and self.missed
            and (each.function in self.missed or not each.is_named)
        ]


def which_acted(
    effects: Iterable[KnownEffect],
    stage: str,
    functions: Collection[str],
    arguments: str | None,
) -> list[KnownEffect]:
    """Return the effects of these calls that happened, or may have.

    `arguments`: as on an effect; None: the calls with any arguments.
    """
    return [
        each
        for each in effects
        if each.stage == stage
        and each.function in functions
        and arguments in (None, each.arguments)
        and each.end is not EffectEnd.NOT_HAPPENED
    ]


def describe_effects(effects: Iterable[KnownEffect], stage: str) -> str:
    """Return one sentence about what the effects of a stage have become."""
    found = [each.end for each in effects if each.stage == stage]
    if not found:
        return "It has made no call with an effect."
    told = ", ".join(f"{found.count(end)} {end}" for end in EffectEnd if end in found)
    return f"Its calls with an effect: {told}."
