"""The settings of a process: default, unit and reason. Each main reads them once.

The environment variable of a setting is its name in capitals after `PIECEWORK_`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from piecework.errors import UsageError

#: A bucket name joins both with the account and the region; S3 allows 63 characters.
_APP = r"^[a-z][a-z0-9-]{0,19}$"
_ENV = r"^[a-z][a-z0-9-]{0,13}$"

#: Seconds for which a worker may keep a message hidden, from its receive: the 12 hours
#: of SQS, less a margin for the waits of at most 15 minutes in the queue.
MAX_RECEIVE_S = 43_200.0 - 1_200.0


class Settings(BaseSettings):
    """The settings of one process."""

    model_config = SettingsConfigDict(env_prefix="PIECEWORK_", frozen=True)

    #: The first two words of every resource's name: `{app}-{env}-work` and so on.
    app: str = Field(default="piecework", pattern=_APP)
    env: str = Field(default="local", pattern=_ENV)
    #: The tenant of all jobs that the process handles; part of every key.
    tenant: str = Field(default="default", pattern=r"^[A-Za-z0-9_-]{1,64}$")

    #: Seconds that a lease lasts. The worker renews it every third of this time. A
    #: short lease lets another worker take over a dead worker's chunk sooner; a long
    #: one needs fewer writes.
    lease_s: float = Field(default=60.0, ge=0.5)
    #: Seconds that a received message stays hidden. It must be longer than the lease:
    #: when a dead worker's message comes back, its lease has then expired.
    visibility_s: float = Field(default=90.0, ge=1.0, le=MAX_RECEIVE_S)
    #: Seconds by which the clocks of two workers may differ. A worker treats a lease as
    #: expired only when it ended longer ago than this.
    clock_skew_s: float = Field(default=5.0, ge=0.0)
    #: Attempts of a chunk before it is dead-lettered.
    max_attempts: int = Field(default=3, ge=1, le=100)
    #: Releases of a chunk by stopping workers that spend no attempt.
    max_releases: int = Field(default=10, ge=0)
    #: Takeovers of a chunk that spend no attempt. Before each one, the chunk's worker
    #: died, froze or was cut off, perhaps by the fault of another chunk.
    max_takeovers: int = Field(default=10, ge=0)
    #: Seconds that one claim may last in all. SQS hides a message for 12 hours from its
    #: receive; this time and `visibility_s` together stay below.
    max_runtime_s: float = Field(default=900.0, gt=0, le=39_600)
    #: Seconds without a finished call or stage after which a chunk counts as stalled.
    stall_timeout_s: float = Field(default=300.0, gt=0)
    #: Seconds without a turn of the event loop after which the worker logs the stack.
    #: asyncio's own steps take milliseconds; ten seconds are a stage that blocks.
    loop_blocked_s: float = Field(default=10.0, ge=0.1)
    #: Seconds that one run of a chunk may wait in retries of its calls.
    retry_budget_s: float = Field(default=60.0, ge=0)
    #: Seconds that a stopping worker lets its chunks run before it releases them.
    #: Fargate sends SIGKILL 30 s after SIGTERM by default, and at most 120 s after it.
    #: The releases take up to 9 s of that time.
    shutdown_grace_s: float = Field(default=20.0, ge=0)

    #: Megabytes of memory at which a worker stops as on SIGTERM, with exit code 8, so
    #: that the platform starts a fresh one. And megabytes that an isolated stage may
    #: use if the stage declares no limit. 0: no limit. Both need Linux.
    memory_mb: int = Field(default=0, ge=0)
    stage_memory_mb: int = Field(default=0, ge=0)

    #: The file for a container's health check. Worker and reconciler write into it the
    #: time by which each of their loops must report next. Empty: no file.
    health_file: str = ""

    #: The largest number of chunks, and of calls in flight, in one worker process.
    max_chunks: int = Field(default=16, ge=1, le=1_000)
    max_calls_in_flight: int = Field(default=64, ge=1, le=10_000)
    #: Seconds of one long poll of SQS. 20 is the longest that SQS allows, and the
    #: cheapest.
    receive_wait_s: int = Field(default=20, ge=0, le=20)
    #: Seconds between two polls of a worker for cancelled jobs and for the fleet's
    #: breakers. A worker notices a cancel within this time. A poll costs two small
    #: reads.
    cancel_poll_s: float = Field(default=0.5, ge=0.1, le=10)
    #: Seconds for which a worker collects finished chunks before it writes their tally
    #: and deletes their messages in one batch. An idle worker does not wait.
    ack_batch_s: float = Field(default=0.05, ge=0, le=5)
    #: The journal writes remembered calls after so many seconds, or so many results.
    journal_flush_s: float = Field(default=0.25, ge=0, le=10)
    journal_page: int = Field(default=25, ge=1, le=100)

    #: Seconds between two passes of the reconciler.
    #: And seconds after which it redispatches a chunk that no worker has claimed; each
    #: redispatch of a chunk doubles this time.
    reconcile_s: float = Field(default=5.0, gt=0)
    redispatch_s: float = Field(default=900.0, gt=0)
    #: Read units a second that the reconciler may spend on reading chunks.
    reconcile_read_units: float = Field(default=200.0, gt=0)

    #: The reconciler raises an alarm if more dead letters than `dead_letter_alarm`
    #: arrive within the window, or if the oldest open one is older than
    #: `dead_letter_age_s`. 0 dead letters: no alarms.
    dead_letter_alarm: int = Field(default=3, ge=0)
    dead_letter_alarm_window_s: float = Field(default=300.0, gt=0)
    dead_letter_age_s: float = Field(default=86_400.0, gt=0)

    #: `emf`: worker and reconciler write their metrics to stdout once a minute, in
    #: CloudWatch's embedded metric format. `off` is the default, because CloudWatch
    #: charges for each metric.
    metrics: Literal["off", "emf"] = "off"

    #: `thin`: the worker's frequent requests are signed and sent without the SDK, at a
    #: quarter of its CPU. `sdk`: all requests go through the SDK.
    aws_transport: Literal["thin", "sdk"] = "thin"

    #: Days after which DynamoDB may delete the remembered calls and errors of a job,
    #: and the dead letters. Jobs, chunks and results stay until an operator deletes
    #: them.
    job_retention_days: int = Field(default=45, ge=1)
    dead_letter_retention_days: int = Field(default=90, ge=14)

    @model_validator(mode="after")
    def _check_visibility(self) -> Settings:
        if self.visibility_s <= self.lease_s:
            message = "visibility_s must be longer than lease_s"
            raise ValueError(message)
        if self.max_runtime_s + self.visibility_s > MAX_RECEIVE_S:
            message = (
                "max_runtime_s and visibility_s together must not exceed"
                f" {MAX_RECEIVE_S:,.0f}"
            )
            raise ValueError(message)
        return self

    @property
    def longest_wait_s(self) -> float:
        """The longest wait in seconds of a retry inside the worker.

        The lease was renewed at most a third of its length ago, so two thirds are left;
        a tenth of the lease is margin.
        """
        return self.lease_s * (2 / 3 - 0.1)

    @property
    def blocked_child_s(self) -> float:
        """The seconds for which a suspect may block the event loop of its child.

        In a worker, a block shorter than the lease costs no chunk its claim.
        """
        return max(self.lease_s, self.loop_blocked_s)

    @property
    def work_queue(self) -> str:
        """The name of the queue that workers receive from."""
        return f"{self.app}-{self.env}-work"

    @property
    def dead_letter_queue(self) -> str:
        """The name of the queue to which SQS moves messages after too many receives."""
        return f"{self.work_queue}-dlq"

    @property
    def checkpoints_table(self) -> str:
        """The name of the table of jobs, chunks and stages."""
        return f"{self.app}-{self.env}-checkpoints"

    @property
    def dead_letters_table(self) -> str:
        """The name of the table of dead letters."""
        return f"{self.app}-{self.env}-dead-letters"

    def bucket(self, account: str, region: str) -> str:
        """Return the name of the bucket of payloads, manifests and results."""
        return f"{self.app}-{self.env}-{account}-{region}"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment.

    Raises:
        UsageError: `config.setting.invalid`, naming each bad setting.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)
        )
        message = f"These settings are invalid: {problems}."
        raise UsageError(message, code="config.setting.invalid") from error
