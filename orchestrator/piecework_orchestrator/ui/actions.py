"""The table of the page's actions: a new action is one more row.

Each action is a method of the client. So the page and the command line change the same
record in the same way. An action first shows what it would touch, and asks for a
reason. The record keeps the reason and the operator.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from piecework_orchestrator.ui import job_actions as job
from piecework_orchestrator.ui import letter_actions as letters
from piecework_orchestrator.ui import pipeline_actions as pipelines
from piecework_orchestrator.ui import question_actions as questions
from piecework_orchestrator.ui.action import Action
from piecework_orchestrator.ui.selection import (
    Perform,
    Show,
    perform_each,
    show_each,
)

UNENDED: Final = frozenset({"SUBMITTING", "RUNNING", "PAUSED"})
UNFINISHED: Final = frozenset({"PARTIAL", "FAILED", "CANCELLED"})


def on_jobs(
    title: str,
    show: Show,
    perform: Perform,
    offered: AbstractSet[str],
    *,
    is_final: bool = False,
) -> Action:
    """Return an action on a job, or on each of a selection of jobs."""
    shown, performed = show_each(show, offered), perform_each(perform, offered)
    return Action(title, shown, performed, frozenset(offered), is_final)


#: The actions by the name in their address, in the order of a job's page.
ACTIONS: Final = {
    "resume": on_jobs("Resume the job", job.preview_resume, job.resume, {"PAUSED"}),
    "pause": on_jobs("Pause the job", job.preview_pause, job.pause, {"RUNNING"}),
    "unpin": Action("Unpin the job", job.preview_unpin, job.unpin),
    "accept-changes": Action("Accept the changes", job.preview_accept, job.accept),
    "retry": on_jobs("Retry the job", job.preview_reopen, job.retry, UNFINISHED),
    "cancel": on_jobs(
        "Cancel the job", job.preview_cancel, job.cancel, UNENDED, is_final=True
    ),
    "delete": on_jobs(
        *("Delete the job", job.preview_delete, job.delete),
        UNFINISHED | {"SUCCEEDED"},
        is_final=True,
    ),
    "redrive": Action("Redrive dead letters", letters.preview_redrive, letters.redrive),
    "edit": Action(
        "Edit the payload and redrive",
        letters.preview_edit,
        letters.edit,
        shows_payload=True,
    ),
    "run-again": Action(
        "Run again from a stage", letters.preview_again, letters.run_again
    ),
    "edit-value": Action(
        "Edit the value of a stage and go on",
        letters.preview_edit_value,
        letters.edit_value,
        shows_payload=True,
    ),
    "compensate": Action(
        "Compensate again", letters.preview_compensate, letters.compensate
    ),
    "discard": Action(
        "Discard dead letters",
        letters.preview_letters,
        letters.discard,
        is_final=True,
    ),
    "answer": Action(
        "Answer the question",
        questions.preview_answer,
        questions.answer,
        shows_payload=True,
        page="question.html",
    ),
    "resolve": Action("Resolve the effect", job.preview_resolve, job.resolve),
    "pause-pipeline": Action(
        "Pause the pipeline", pipelines.preview_pause, pipelines.pause
    ),
    "resume-pipeline": Action(
        "Resume the pipeline", pipelines.preview_resume, pipelines.resume
    ),
}


def offered_to(status: str) -> list[str]:
    """Return the actions that the page of a job in a status offers."""
    return [name for name, action in ACTIONS.items() if status in action.offered]
