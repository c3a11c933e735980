"""Submit jobs, follow them and read their results from a program.

async with Client() as client:
    job = await client.submit(pipeline, rows)
    async for item in job.results(): ...

The command line does the same through the same functions.
"""

from __future__ import annotations

from piecework.client.client import Client
from piecework.client.job import Done, Failed, JobHandle, JobView
from piecework.client.sync import SyncClient, SyncJob

__all__ = [
    "Client",
    "Done",
    "Failed",
    "JobHandle",
    "JobView",
    "SyncClient",
    "SyncJob",
]
