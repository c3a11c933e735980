"""pydantic's ValidationError: a value that does not fit its model."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from piecework.classify.verdict import Verdict

_SHOWN: Final = 5  # the first faults; a broken list has one for each entry


def from_validation(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Blame the answer in a model's call, else the stage that built the value."""
    if not isinstance(error, ValidationError):
        return None
    return Verdict("llm.output.invalid" if layer == "llm" else "runtime.value.invalid")


def validation_message(error: BaseException) -> str:
    """Name fields and faults but not the values: they are the user's data."""
    if not isinstance(error, ValidationError):
        return ""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [
        f"{'.'.join(map(str, fault['loc'])) or 'value'} ({fault['type']})"
        for fault in faults[:_SHOWN]
    ]
    more = [f"{len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
    return f"{error.title} does not validate: {', '.join(shown + more)}"
