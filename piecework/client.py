"""The client of programs: the name under which users import it.

The code is the orchestrator's, which holds all verbs of a job. This module only
forwards: it is the one exception of the import contracts.
"""

from __future__ import annotations

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
