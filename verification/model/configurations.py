"""Define the explored configurations.

Each omits some parts, so that the rest can be explored completely.
"""

from __future__ import annotations

from verification.model.deferrals import DEFERRALS, OPEN_BREAKER, OUTAGE
from verification.model.deferred_cancel import DEFERRED_CANCEL
from verification.model.notifications import NOTIFICATIONS, TIMED
from verification.model.small_model import SmallModel
from verification.model.stage_rows import STAGE_ROWS
from verification.model.state import Config
from verification.model.submits import SUBMIT_PROGRESS, SUBMITS
from verification.model.tallies import TALLIES
from verification.model.waits import LONG_WAITS

#: A stage with a compensation, and the pivot.
COMPENSATING = Config(
    "compensating cancel",
    chunks=1,
    stages=2,
    pivot=1,
    effects=True,
    attempts=1,
    cancel=True,
    compensate=True,
    submitted=True,
    workers=1,
)

CONFIGURATIONS: tuple[Config | SmallModel, ...] = (
    Config("dead-letter queue", chunks=1, attempts=1, dead_letter_queue=True),
    Config("one chunk, duplicates", chunks=1, attempts=1, duplicates=True),
    Config("one chunk, two attempts", chunks=1),
    Config("one chunk, failures and releases", chunks=1, failures=True, releases=True),
    Config("two chunks, one worker", workers=1, attempts=1, loss=False),
    Config("two chunks, two workers", attempts=1),
    Config("cancel", chunks=1, attempts=1, cancel=True),
    Config(
        "cancel, retry, cancel",
        chunks=1,
        workers=1,
        attempts=1,
        gens=2,
        cancel=True,
        loss=False,
    ),
    Config(
        "one chunk, failure, redrive",
        chunks=1,
        workers=1,
        attempts=1,
        gens=2,
        failures=True,
        loss=False,
    ),
    Config(
        "two chunks, failure, redrive",
        gens=2,
        attempts=1,
        workers=1,
        failures=True,
        loss=False,
    ),
    Config("an effect, two workers", chunks=1, attempts=1, effects=True),
    Config(
        "saga",
        chunks=1,
        stages=3,
        pivot=2,
        effects=True,
        failures=True,
        attempts=1,
        workers=1,
        loss=False,
    ),
    Config(
        "saga, cancel, redrive, two workers",
        chunks=1,
        stages=3,
        pivot=2,
        effects=True,
        failures=True,
        attempts=1,
        cancel=True,
        gens=2,
        loss=False,
    ),
    COMPENSATING._replace(name="compensation, failures", attempts=2, failures=True),
    COMPENSATING._replace(
        name="compensation, late requests", late_requests=True, failures=True
    ),
    COMPENSATING._replace(name="compensation, two workers", workers=2, loss=False),
    COMPENSATING._replace(name="compensation, retry", gens=2, loss=False, share=12),
    COMPENSATING._replace(name="compensating deadline", cancel=False, deadline=True),
    Config(
        "deadline, retry",
        chunks=1,
        attempts=1,
        gens=2,
        deadline=True,
        submitted=True,
        share=12,
        workers=1,
        loss=False,
    ),
    SUBMITS,
    SUBMIT_PROGRESS,
    TALLIES,
    NOTIFICATIONS,
    TIMED,
    DEFERRALS,
    OUTAGE,
    OPEN_BREAKER,
    DEFERRED_CANCEL,
    LONG_WAITS,
    STAGE_ROWS,
)
