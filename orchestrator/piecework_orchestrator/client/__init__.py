"""Submit jobs, follow them and read their results from a program.

async with Client() as client:
    job = await client.submit(pipeline, rows)
    async for item in job.results(): ...

The command line is built on this client.
"""

from __future__ import annotations

from piecework.domain.dead_letter import DeadLetterRow
from piecework.webhooks.answer_links import AnswerLink, AnswerLinks
from piecework_orchestrator.client.client import Client, SyncClient
from piecework_orchestrator.client.job import JobHandle
from piecework_orchestrator.client.sync import SyncJob
from piecework_orchestrator.client.views import Done, Failed, JobFacts, JobView
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.dead_letters.closing import Redriven, RedriveOptions
from piecework_orchestrator.dead_letters.compensate import HandOutcome
from piecework_orchestrator.dead_letters.redrive import Edit
from piecework_orchestrator.operate.run_again import RunAgain

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
    "RunAgain",
    "SyncClient",
    "SyncJob",
    "TaskSize",
]
