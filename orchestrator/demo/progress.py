"""How far the job is, and what is expected of the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of the job.

    Attributes:
        calls_made: Calls of the model, tries that failed included.
        calls_done: Calls of model and add-in that are answered for good.
        calls_expected: What `calls_done` comes to when every chunk succeeds.
        elapsed_s: Seconds since the submit.
        workers: What each worker has in hand, by its name.
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
        """Calls a second so far."""
        return self.calls_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Return the seconds that the rest takes at this rate; None: cannot be told."""
        if not self.rate:
            return None
        return (self.calls_expected - self.calls_done) / self.rate

    def figures(self) -> str:
        """Return what stands beside the bars."""
        eta = "-:--" if self.eta_s is None else minutes(self.eta_s)
        p95 = "-" if self.p95_s is None else f"{self.p95_s:.2f} s"
        return (
            f"eta {eta}  {self.rate:.0f}/s  made {self.calls_made}"
            f"  retries {self.retries}  429s {self.rate_limited}  p95 {p95}"
        )

    def line(self) -> str:
        """Return everything in one line, for where there is no terminal."""
        chunks = f"{self.chunks_ended}/{self.chunks}"
        return (
            f"chunks {chunks}  calls {self.calls_done}/{self.calls_expected}"
            f"  {self.figures()}"
        )


def minutes(seconds: float) -> str:
    """Return seconds as 0:07."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
