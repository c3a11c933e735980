"""Every knob: its default, its unit, and why. Read once, in a process's main.

Environment variables are the names in capitals behind `PIECEWORK_`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from piecework.errors import UsageError

#: Together with an account and a region they make a bucket name: 63 characters.
_APP = r"^[a-z][a-z0-9-]{0,19}$"
_ENV = r"^[a-z][a-z0-9-]{0,13}$"


class Settings(BaseSettings):
    """The settings of one process."""

    model_config = SettingsConfigDict(env_prefix="PIECEWORK_", frozen=True)

    #: The first two words of every resource's name: `{app}-{env}-work` and so on.
    app: str = Field(default="piecework", pattern=_APP)
    env: str = Field(default="local", pattern=_ENV)
    #: Whose jobs these are; part of every key.
    tenant: str = Field(default="default", pattern=r"^[A-Za-z0-9_-]{1,64}$")

    #: Seconds that a claim lasts unless it is renewed, which happens every third of
    #: it. Short: a dead worker's chunk is soon taken over. Long: fewer writes.
    lease_s: float = Field(default=60.0, ge=0.5)
    #: Seconds that a received message stays hidden. Longer than the lease, so that a
    #: message that comes back finds the lease of a dead worker run out.
    visibility_s: float = Field(default=90.0, ge=1.0, le=43_200)
    #: Seconds by which the clocks of two workers may differ. A lease counts as dead
    #: only when it has been over for longer.
    skew_s: float = Field(default=5.0, ge=0.0)
    #: Times that the work on a chunk may begin before it is a dead letter.
    max_attempts: int = Field(default=3, ge=1, le=100)
    #: Times that a stop may hand a chunk back without spending an attempt.
    max_releases: int = Field(default=10, ge=0)
    #: Seconds one claim may last in all; SQS ends every receive after 12 hours.
    max_runtime_s: float = Field(default=900.0, gt=0, le=39_600)
    #: Seconds without a finished call or stage after which a chunk counts as hung.
    stall_s: float = Field(default=300.0, gt=0)
    #: Seconds of waiting in retries that one run of a chunk may spend.
    retry_budget_s: float = Field(default=60.0, ge=0)
    #: Seconds that a stopping worker gives the chunks in hand before it hands them
    #: back. Fargate sends SIGKILL 30 s after SIGTERM unless told otherwise, 120 s at
    #: the most; writing down what was cut off takes up to 9 s of them.
    drain_s: float = Field(default=20.0, ge=0)

    #: Megabytes of memory at which a worker stops as on SIGTERM, so that a fresh one
    #: takes its place (exit code 8), and megabytes that an isolated stage may take
    #: unless it says so itself; 0: no limit. Both need Linux.
    memory_mb: int = Field(default=0, ge=0)
    stage_memory_mb: int = Field(default=0, ge=0)

    #: A file in which worker and reconciler keep by when each of their loops has to
    #: show up again, for the health check of a container; empty: none is kept.
    health_file: str = ""

    #: Chunks in hand, and calls in flight, of one worker process.
    concurrency: int = Field(default=16, ge=1, le=1_000)
    calls: int = Field(default=64, ge=1, le=10_000)
    #: Seconds of one long poll. 20 is the most that SQS allows, and the cheapest.
    poll_s: int = Field(default=20, ge=0, le=20)
    #: Seconds between two looks of a worker at the jobs that it has in hand, and at the
    #: fleet's breakers: how soon it hears of a cancel. A look is two small reads.
    watch_s: float = Field(default=0.5, ge=0.1, le=10)
    #: Seconds that finished chunks wait for company before their tally and their
    #: messages' deletion are written; a worker without other work does not wait.
    linger_s: float = Field(default=0.05, ge=0, le=5)
    #: Seconds, and results, after which remembered calls are written at the latest.
    journal_linger_s: float = Field(default=0.25, ge=0, le=10)
    journal_page: int = Field(default=25, ge=1, le=100)

    #: Seconds between two looks of the reconciler, and after which a chunk that no
    #: worker touched is sent again; each resend of a chunk doubles the latter.
    reconcile_s: float = Field(default=5.0, gt=0)
    redispatch_s: float = Field(default=900.0, gt=0)
    #: Read units a second that the reconciler may spend on looking at chunks.
    reconcile_units: float = Field(default=200.0, gt=0)

    #: An alarm is given when more dead letters than this arrive within so many seconds,
    #: and when the oldest open one is older than so many seconds; 0 letters: never.
    dead_letter_alarm: int = Field(default=3, ge=0)
    dead_letter_alarm_window_s: float = Field(default=300.0, gt=0)
    dead_letter_age_s: float = Field(default=86_400.0, gt=0)

    #: `emf`: worker and reconciler write their metrics to stdout once a minute, in
    #: CloudWatch's embedded metric format; each metric costs, so that none is `off`.
    metrics: Literal["off", "emf"] = "off"

    #: `thin`: the requests that a worker lives by are signed and sent without the SDK's
    #: own way around each, at a quarter of its CPU; `sdk`: all through the SDK.
    wire: Literal["thin", "sdk"] = "thin"

    #: Days after which the remembered calls and errors of a job, and dead letters, may
    #: be swept away. Jobs, chunks and results stay until somebody deletes them.
    keep_jobs_days: int = Field(default=45, ge=1)
    keep_dead_letters_days: int = Field(default=90, ge=14)

    @model_validator(mode="after")
    def _hang_together(self) -> Settings:
        if self.visibility_s <= self.lease_s:
            message = "visibility_s must be longer than lease_s"
            raise ValueError(message)
        return self

    @property
    def longest_wait_s(self) -> float:
        """Seconds that a retry may wait inside the worker: never beyond the lease.

        Renewed a third of it ago, the lease has two thirds left; a tenth is margin.
        """
        return self.lease_s * (2 / 3 - 0.1)

    @property
    def work_queue(self) -> str:
        """The name of the queue that workers receive from."""
        return f"{self.app}-{self.env}-work"

    @property
    def dead_letter_queue(self) -> str:
        """The name of the queue to which SQS moves what nobody could keep."""
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
        said = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)
        )
        message = f"The settings do not fit: {said}."
        raise UsageError(message, code="config.setting.invalid") from error
