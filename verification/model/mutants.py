"""Remove one guard of the protocol at a time, and name the property that must fail."""

from __future__ import annotations

from typing import NamedTuple

from verification.model.checker import STUCK
from verification.model.configurations import COMPENSATING
from verification.model.deferrals import DEFERRALS, OPEN_BREAKER, OUTAGE
from verification.model.deferred_cancel import DEFERRED_CANCEL
from verification.model.notifications import NOTIFICATIONS, ONE_NOTIFIER
from verification.model.small_model import SmallModel
from verification.model.space import ENDS_AFTER_CHUNKS
from verification.model.stage_rows import GONE_ROW, MIXED, SKIPPED, STAGE_ROWS
from verification.model.state import Config
from verification.model.submits import ONE_SUBMITTER, SUBMIT_PROGRESS, SUBMITS
from verification.model.tallies import ALL_ENDED, LATE_COUNT, ONE_COUNTS
from verification.model.waits import LONG_WAITS

TINY = Config("tiny", chunks=1, workers=1, attempts=1)
ONE = Config("one chunk", chunks=1)
REDRIVE = Config("redrive", chunks=1, gens=2, attempts=1, failures=True)
CANCEL = Config("cancel", chunks=1, cancel=True)
TWO = Config("two chunks", gens=2, attempts=1, workers=1, failures=True)
CANCELLED = Config(
    "cancelled", chunks=1, gens=2, attempts=1, workers=1, cancel=True, loss=False
)
EFFECT = Config("effect", chunks=1, effects=True)
SAGA = Config(
    "saga", chunks=1, stages=3, pivot=2, effects=True, failures=True, attempts=1
)
RELEASES = SAGA._replace(releases=True, workers=1, loss=False)
DEADLINE = Config(
    "deadline", chunks=1, attempts=1, workers=1, deadline=True, submitted=True
)


class Mutant(NamedTuple):
    """A guard, the run in which it is missing, and the property that must fail."""

    guard: str
    config: Config | SmallModel
    breaks: str

    @property
    def without(self) -> Config | SmallModel:
        removed = self.config.removed | {self.guard}
        return self.config._replace(removed=removed, name=f"without {self.guard}")


ENDED_STAYS = "an ended chunk stays ended"
COMPLETED_ONCE = "one completion a generation"
NO_EFFECT_LEFT = "a compensating cancel leaves no effect"
REFUNDS_COUNTED = "only a counted attempt is refunded"
PAST_PIVOT = "nothing is compensated past the pivot"
STAYS_COMPENSATED = "a compensated effect does not return"
STAYS_ACTIVE = "an open job is in the active index"

MUTANTS = (
    Mutant("dispatch again", TINY, STUCK),
    Mutant("give back", TINY, STUCK),
    Mutant("empty dead-letter queue", TINY._replace(dead_letter_queue=True), STUCK),
    Mutant("finish submit", TINY, STUCK),
    Mutant("finish", TINY, STUCK),
    Mutant("finish reopening", TINY._replace(gens=2, failures=True, loss=False), STUCK),
    Mutant("status in claim", ONE, ENDED_STAYS),
    Mutant("lease in claim", ONE, "a chunk with a valid lease is not claimed"),
    Mutant("generation in claim", REDRIVE, "no claim by an earlier generation"),
    Mutant("attempts in claim", ONE, "attempts are bounded"),
    Mutant("cancel in claim", CANCEL, "a chunk with a cancel is not claimed"),
    Mutant("ownership in settle", ONE, COMPLETED_ONCE),
    Mutant("fence and token", ONE, "only the owner settles"),
    Mutant("fence in intent", EFFECT, "only the owner starts an effect"),
    Mutant("renewal in give back", ONE, "an owner that renews keeps its claim"),
    Mutant("refused claim keeps message", ONE, "an open chunk keeps its message"),
    Mutant("settle before tally", ONE, "only ended chunks are counted"),
    Mutant("snapshot", TWO, ENDS_AFTER_CHUNKS),
    Mutant("status in finalize", REDRIVE, "no other generation is finalized"),
    Mutant(
        "all chunks in cancelled",
        CANCEL._replace(chunks=2, workers=1),
        ENDS_AFTER_CHUNKS,
    ),
    Mutant("job in reopen", CANCELLED, "no chunk of an ended job is reopened"),
    Mutant("REOPENING", TWO, "a job is finalized after its reopening"),
    Mutant(
        "generation in sweep",
        REDRIVE._replace(cancel=True),
        "no later generation is cancelled",
    ),
    Mutant(
        "direction in cancel",
        SAGA._replace(cancel=True),
        "no compensation is interrupted",
    ),
    Mutant("ledger", CANCELLED._replace(effects=True), "no effect is present twice"),
    Mutant("provider key", EFFECT, "no effect happens twice in a generation"),
    Mutant("compensation key", SAGA, "no stage is compensated twice"),
    Mutant("reverse order", SAGA, "stages are compensated in reverse order"),
    Mutant("unknown pivot", SAGA, PAST_PIVOT),
    Mutant("owner stops by its own clock", SAGA, STAYS_COMPENSATED),
    Mutant("release keeps a spent attempt", RELEASES, REFUNDS_COUNTED),
    Mutant("takeover keeps a spent attempt", RELEASES, REFUNDS_COUNTED),
    Mutant("started in sweep", COMPENSATING, NO_EFFECT_LEFT),
    Mutant("compensation in claim", COMPENSATING, NO_EFFECT_LEFT),
    Mutant("pivot in direction", COMPENSATING._replace(attempts=2), PAST_PIVOT),
    Mutant("owner compensates", COMPENSATING, NO_EFFECT_LEFT),
    Mutant("expired leases compensate", COMPENSATING, NO_EFFECT_LEFT),
    Mutant("uninterrupted compensation", COMPENSATING, NO_EFFECT_LEFT),
    Mutant("compensation in repair", COMPENSATING._replace(stages=1, pivot=9), STUCK),
    Mutant("drain", COMPENSATING._replace(late_requests=True), STAYS_COMPENSATED),
    Mutant("status in expire", DEADLINE, "no deadline cancels an ending job"),
    Mutant(
        "passed deadline is removed",
        DEADLINE._replace(gens=2),
        "a passed deadline cancels no later generation",
    ),
    Mutant("job absent in submit", SUBMITS, "no job is created twice"),
    Mutant("all chunks in cancelled", SUBMITS, "no chunk is created after the end"),
    Mutant("chunk absent in create", SUBMITS, "no chunk is created twice"),
    Mutant("status in open", SUBMITS, "only a SUBMITTING job is opened"),
    Mutant("open before send", SUBMITS, "no claim before all chunks exist"),
    Mutant("unopened job is submitted", SUBMITS, "no claim before all chunks exist"),
    Mutant("births in sweep", ONE_SUBMITTER, STUCK),
    Mutant("submit progress", SUBMIT_PROGRESS, "only a stopped submit is continued"),
    Mutant("snapshot of all chunks", ALL_ENDED, ENDS_AFTER_CHUNKS),
    Mutant("generation in finalize", ALL_ENDED, ENDS_AFTER_CHUNKS),
    Mutant("generation of snapshot", ALL_ENDED, "the certificate matches the chunks"),
    Mutant("first generation in skip", LATE_COUNT, STUCK),
    Mutant("reconciler finishes", ONE_COUNTS, STUCK),
    Mutant("notification with its cause", ONE_NOTIFIER, STUCK),
    Mutant("active until delivered", ONE_NOTIFIER, STUCK),
    Mutant("reconciler dispatches", ONE_NOTIFIER, STUCK),
    Mutant("active in reopen", NOTIFICATIONS, STAYS_ACTIVE),
    Mutant("generation in close", NOTIFICATIONS, STAYS_ACTIVE),
    Mutant("due in claim", NOTIFICATIONS, "no claimed row is claimed again"),
    Mutant("owner in abandon", NOTIFICATIONS, "only the owner abandons a row"),
    Mutant("limit of attempts", NOTIFICATIONS, "calls of the hook are bounded"),
    Mutant("delivered after the call", NOTIFICATIONS, "a DELIVERED row was received"),
    Mutant("claims since untried", DEFERRALS, PAST_PIVOT),
    Mutant("called in this claim", DEFERRALS, PAST_PIVOT),
    Mutant("refund in defer", DEFERRALS, "only failures spend attempts"),
    Mutant("recovery claim in refund", DEFERRALS, REFUNDS_COUNTED),
    Mutant("limit of deferrals", OUTAGE, STUCK),
    Mutant("limit of deferrals in compensation", OUTAGE, STUCK),
    Mutant("limit of breaker waits", OPEN_BREAKER, STUCK),
    Mutant("higher limit in compensation", OPEN_BREAKER, STUCK),
    Mutant("deferred chunks are swept again", DEFERRED_CANCEL, STUCK),
    Mutant("dispatch time is recorded", LONG_WAITS, STUCK),
    Mutant("next dispatch time is recorded", LONG_WAITS, STUCK),
    Mutant("row before its name", STAGE_ROWS, GONE_ROW),
    Mutant("fence in the key of a row", STAGE_ROWS, MIXED),
    Mutant("a row counts once it is named", STAGE_ROWS, SKIPPED),
)
