"""pydantic's ValidationError: a value that does not match its model."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from piecework.classify.verdict import Verdict

_SHOWN: Final = 5  # the first errors: an invalid list has one for each entry


def from_validation(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify as an invalid answer in a model call, else as an error of the stage."""
    if not isinstance(error, ValidationError):
        return None
    return Verdict("llm.output.invalid" if layer == "llm" else "runtime.value.invalid")


def validation_message(error: BaseException) -> str:
    """Return the fields and their errors without the values, which are user data."""
    if not isinstance(error, ValidationError):
        return ""
    details = error.errors(
        include_url=False, include_context=False, include_input=False
    )
    shown = [
        f"{'.'.join(map(str, detail['loc'])) or 'value'} ({detail['type']})"
        for detail in details[:_SHOWN]
    ]
    more = [f"{len(details) - _SHOWN} more"] if len(details) > _SHOWN else []
    return f"{error.title} does not validate: {', '.join(shown + more)}"
