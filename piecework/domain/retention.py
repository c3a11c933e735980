"""How long the rows of a job live before DynamoDB deletes them, free of charge.

Each row of a chunk has a time, `expires_at`, which the job sets at its birth: its
retention and some days to spare. So a row outlives the job that needs it, and a
deletion by the retention has nothing to write for it. A job that lives longer is
renewed: see `piecework.jobs.renewal`. Rows of a job without a retention have no time.
"""

from __future__ import annotations

from typing import Final

from piecework.domain.moments import iso, moment

DAY_S: Final = 86_400
#: Days that rows live beyond the retention, counted from the birth of their job.
SPARE_DAYS: Final = 7
#: Days before that end from which a reconciler renews the rows of a job that is not
#: deleted yet. A job that has ended within the other days is never renewed. All
#: reconcilers may be off for so long.
RENEWED_BEFORE_DAYS: Final = 4
#: Seconds between the two sweeps of a renewal. A claim that began before the first one
#: may write rows with the old time; it lasts 11 hours at most.
SECOND_RENEWAL_S: Final = 12 * 3600.0
#: Days for which rows are renewed once jobs stay for ever.
FOR_EVER_DAYS: Final = 365


def rows_until(now: float, days: int) -> str:
    """Return until when rows live that are written now; `days`: of the retention."""
    return iso(now + ((days or FOR_EVER_DAYS) + SPARE_DAYS) * DAY_S)


def renewal_at(until: str) -> str:
    """Return when rows that live until then are renewed, unless their job is gone."""
    return iso(moment(until) - RENEWED_BEFORE_DAYS * DAY_S)


def life_of_rows(now: float, days: int) -> dict[str, str]:
    """Return the attributes of a new job; none if jobs stay for ever."""
    if not days:
        return {}
    until = rows_until(now, days)
    return {"rows_until": until, "renew_at": renewal_at(until)}


def expires_at(until: str) -> int | None:
    """Return the attribute of a row that lives until then; None: it stays."""
    return int(moment(until)) if until else None
