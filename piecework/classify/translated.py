"""Classify by the `classify` function of a dependency."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from piecework.classify.own import from_piecework
from piecework.classify.verdict import Shape, Verdict
from piecework.errors import StageError

# An error of the dependency -> its meaning; None: the function does not know it.
Translate: TypeAlias = Callable[[BaseException], StageError | None]


def translated(translate: Translate) -> Shape:
    """Return the shape of a user's function, declared as `Dependency(classify=…)`."""

    def from_translation(
        error: BaseException, layer: str, now: float | None
    ) -> Verdict | None:
        try:
            meaning: object = translate(error)
        except Exception as fault:  # noqa: BLE001  the call's own error must not be lost
            return _failed(f"raised {type(fault).__name__}")
        if meaning is None:
            return None
        if not isinstance(meaning, StageError):
            return _failed(f"returned a {type(meaning).__name__}")
        return from_piecework(meaning, layer, now, message=meaning.message)

    return from_translation


def _failed(problem: str) -> Verdict:
    message = f"The dependency's `classify` {problem}."
    return Verdict("runtime.classifier.failed", message=message)
