"""The client of programs: the name under which users import it.

The code is the orchestrator's, which holds all verbs of a job. This module only
forwards: it is the one exception of the import contracts. A program imports the
orchestrator when it uses a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piecework_orchestrator.client import (
        AnswerLink,
        AnswerLinks,
        Client,
        DeadLetterRow,
        Done,
        Edit,
        Failed,
        HandOutcome,
        JobFacts,
        JobHandle,
        JobView,
        Redriven,
        RedriveOptions,
        SyncClient,
        SyncJob,
        TaskSize,
    )

__all__ = [
    "AnswerLink",
    "AnswerLinks",
    "Client",
    "DeadLetterRow",
    "Done",
    "Edit",
    "Failed",
    "HandOutcome",
    "JobFacts",
    "JobHandle",
    "JobView",
    "RedriveOptions",
    "Redriven",
    "SyncClient",
    "SyncJob",
    "TaskSize",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is used."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from piecework_orchestrator import client

    found: object = getattr(client, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted({*globals(), *__all__})
