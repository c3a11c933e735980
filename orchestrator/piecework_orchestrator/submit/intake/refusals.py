"""Collect the rows of an input that are refused, so that all are told at once.

A submit creates no job if a row is refused. With `--invalid skip` it leaves the row
out. With `--invalid dead` the row becomes a dead letter, which an operator can patch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from piecework.domain.chunk_input import ChunkInput, clean_label
from piecework.domain.payload import refused_payload
from piecework.errors import PieceworkError, UsageError
from piecework_orchestrator.submit.intake.chunk import SourceLocation
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid

#: Refused rows that a message or a record names.
NAMED: Final = 20


@dataclass(slots=True)
class Refusals:
    """The refused rows of one input.

    Attributes:
        action: What happens to them.
        count: How many they are.
        kept: How many rows were not refused.
        places: The first of them, such as `line 3`.
        errors: What is wrong with the first of them.
    """

    action: OnInvalid = OnInvalid.REFUSE
    count: int = 0
    kept: int = 0
    places: list[str] = field(default_factory=list)
    errors: list[PieceworkError] = field(default_factory=list)

    def checked(
        self,
        make: Callable[[], ChunkInput],
        location: SourceLocation,
        row: Callable[[], Any],
        limits: IntakeLimits,
    ) -> ChunkInput | None:
        """Return the chunk of a row; None: the row is left out.

        After a refused row that stops the submit, the others are only checked: nothing
        more is stored.

        Args:
            make: Makes the chunk, or raises.
            location: The row, for messages.
            row: Its data, for an operator who will correct it.
            limits: The limits of a submit.
        """
        try:
            chunk = make()
        except PieceworkError as error:
            return self._refused(error, location, row, limits)
        self.kept += 1
        return None if self.count and self.action is OnInvalid.REFUSE else chunk

    def _refused(
        self,
        error: PieceworkError,
        location: SourceLocation,
        row: Callable[[], Any],
        limits: IntakeLimits,
    ) -> ChunkInput | None:
        self.count += 1
        if len(self.errors) < NAMED:
            self.errors.append(error)
            self.places.append(location.part)
        if self.action is not OnInvalid.DEAD:
            return None
        payload = refused_payload(error.message, row, limits.payload_bytes)
        return ChunkInput(clean_label(location.label), payload)

    def end(self, origin: str) -> None:
        """Refuse the input if a row of it was refused, or if no row is left.

        Raises:
            PieceworkError: The error of the only refused row.
            UsageError: `input.rows.invalid_line`, or the code that all have;
                `input.rows.empty`.
        """
        leaves_none = self.action is OnInvalid.SKIP and not self.kept
        if not self.count or (self.action is not OnInvalid.REFUSE and not leaves_none):
            return
        if self.count == 1 and not leaves_none:
            raise self.errors[0]
        codes = {error.code for error in self.errors}
        code = codes.pop() if len(codes) == 1 else "input.rows.invalid_line"
        step = "Correct them, then submit again: no job was created."
        if not leaves_none:
            step += " Or add `--invalid skip` or `--invalid dead`."
        raise UsageError(
            "\n".join([f"{self.count:,} rows of {origin} are refused:", *self.lines()]),
            code="input.rows.empty" if leaves_none else code,
            next_step=step,
            origin=origin,
            rows=self.count,
        )

    def facts(self) -> dict[str, object]:
        """Return what the record says about the rows that were left out."""
        if self.action is not OnInvalid.SKIP or not self.count:
            return {}
        return {"left_out_rows": self.count, "left_out": self.places}

    def lines(self) -> list[str]:
        """Return what is wrong with the first refused rows, one line for each."""
        told = [f"  {error.message}" for error in self.errors]
        more = self.count - len(told)
        return [*told, *([f"  … and {more:,} more"] if more else [])]


def on_invalid(text: str) -> OnInvalid:
    """Return what happens to refused rows.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    try:
        return OnInvalid(text)
    except ValueError:
        message = f"{text!r} says nothing about invalid rows."
        step = f"Use one of: {', '.join(OnInvalid)}."
        raise UsageError(message, next_step=step) from None
