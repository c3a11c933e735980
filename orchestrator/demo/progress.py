"""The progress of the job, and the estimate for the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress at one moment.

    Attributes:
        calls_made: Calls of the model, including failed attempts.
        calls_done: Calls of model and add-in with a final answer.
        calls_expected: The final value of `calls_done` if every chunk succeeds.
        elapsed_s: Seconds since the submit.
        workers: The chunks of each worker, by its name.
    """

    chunks_ended: int
    chunks: int
    calls_made: int
    calls_done: int
    calls_expected: int
    retries: int
    rate_limited: int
    p95_s: float | None
    elapsed_s: float
    workers: dict[str, str]

    @property
    def rate(self) -> float:
        """Calls per second so far."""
        return self.calls_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Return the estimated seconds for the rest, or None if the rate is 0."""
        if not self.rate:
            return None
        return (self.calls_expected - self.calls_done) / self.rate

    def format_figures(self) -> str:
        """Return the figures below the bars."""
        eta = "-:--" if self.eta_s is None else format_clock(self.eta_s)
        p95 = "-" if self.p95_s is None else f"{self.p95_s:.2f} s"
        return (
            f"eta {eta}  {self.rate:.0f}/s  made {self.calls_made}"
            f"  retries {self.retries}  429s {self.rate_limited}  p95 {p95}"
        )

    def format_line(self) -> str:
        """Return the progress as one line, for output without a terminal."""
        chunks = f"{self.chunks_ended}/{self.chunks}"
        return (
            f"chunks {chunks}  calls {self.calls_done}/{self.calls_expected}"
            f"  {self.format_figures()}"
        )


def format_clock(seconds: float) -> str:
    """Return seconds as 0:07."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
