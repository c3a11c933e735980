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


class Ablation(NamedTuple):
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

ABLATIONS = (
    Ablation("dispatch again", TINY, STUCK),
    Ablation("give back", TINY, STUCK),
    Ablation("empty dead-letter queue", TINY._replace(dead_letter_queue=True), STUCK),
    Ablation("finish submit", TINY, STUCK),
    Ablation("finish", TINY, STUCK),
    Ablation(
        "finish reopening", TINY._replace(gens=2, failures=True, loss=False), STUCK
    ),
    Ablation("status in claim", ONE, ENDED_STAYS),
    Ablation("lease in claim", ONE, "a chunk with a valid lease is not claimed"),
    Ablation("generation in claim", REDRIVE, "no claim by an earlier generation"),
    Ablation("attempts in claim", ONE, "attempts are bounded"),
    Ablation("cancel in claim", CANCEL, "a chunk with a cancel is not claimed"),
    Ablation("ownership in settle", ONE, COMPLETED_ONCE),
    Ablation("fence and token", ONE, "only the owner settles"),
    Ablation("fence in intent", EFFECT, "only the owner starts an effect"),
    Ablation("renewal in give back", ONE, "an owner that renews keeps its claim"),
    Ablation("refused claim keeps message", ONE, "an open chunk keeps its message"),
    Ablation("settle before tally", ONE, "only ended chunks are counted"),
    Ablation("snapshot", TWO, ENDS_AFTER_CHUNKS),
    Ablation("status in finalize", REDRIVE, "no other generation is finalized"),
    Ablation("job in create", CANCEL._replace(chunks=2, workers=1), ENDS_AFTER_CHUNKS),
    Ablation("job in reopen", CANCELLED, "no chunk of an ended job is reopened"),
    Ablation("REOPENING", TWO, "a job is finalized after its reopening"),
    Ablation(
        "generation in sweep",
        REDRIVE._replace(cancel=True),
        "no later generation is cancelled",
    ),
    Ablation(
        "direction in cancel",
        SAGA._replace(cancel=True),
        "no compensation is interrupted",
    ),
    Ablation("ledger", CANCELLED._replace(effects=True), "no effect is present twice"),
    Ablation("provider key", EFFECT, "no effect happens twice in a generation"),
    Ablation("compensation key", SAGA, "no stage is compensated twice"),
    Ablation("reverse order", SAGA, "stages are compensated in reverse order"),
    Ablation("unknown pivot", SAGA, PAST_PIVOT),
    Ablation("owner stops by its own clock", SAGA, STAYS_COMPENSATED),
    Ablation("release keeps a spent attempt", RELEASES, REFUNDS_COUNTED),
    Ablation("takeover keeps a spent attempt", RELEASES, REFUNDS_COUNTED),
    Ablation("started in sweep", COMPENSATING, NO_EFFECT_LEFT),
    Ablation("compensation in claim", COMPENSATING, NO_EFFECT_LEFT),
    Ablation("pivot in direction", COMPENSATING._replace(attempts=2), PAST_PIVOT),
    Ablation("owner compensates", COMPENSATING, NO_EFFECT_LEFT),
    Ablation("expired leases compensate", COMPENSATING, NO_EFFECT_LEFT),
    Ablation("uninterrupted compensation", COMPENSATING, NO_EFFECT_LEFT),
    Ablation("compensation in repair", COMPENSATING._replace(stages=1, pivot=9), STUCK),
    Ablation("drain", COMPENSATING._replace(late_requests=True), STAYS_COMPENSATED),
    Ablation("status in expire", DEADLINE, "no deadline cancels an ending job"),
    Ablation(
        "passed deadline is removed",
        DEADLINE._replace(gens=2),
        "a passed deadline cancels no later generation",
    ),
    Ablation("job absent in submit", SUBMITS, "no job is created twice"),
    Ablation("status in create", SUBMITS, "no chunk is created after a cancel"),
    Ablation("generation in create", SUBMITS, "a chunk has the generation of its job"),
    Ablation("chunk absent in create", SUBMITS, "no chunk is created twice"),
    Ablation("status in open", SUBMITS, "only a SUBMITTING job is opened"),
    Ablation("open before send", SUBMITS, "no claim before all chunks exist"),
    Ablation("unopened job is submitted", SUBMITS, "a RUNNING job has all its chunks"),
    Ablation("absent chunks are certified", ONE_SUBMITTER, STUCK),
    Ablation("submit progress", SUBMIT_PROGRESS, "only a stopped submit is continued"),
    Ablation("snapshot of all chunks", ALL_ENDED, ENDS_AFTER_CHUNKS),
    Ablation("generation in finalize", ALL_ENDED, ENDS_AFTER_CHUNKS),
    Ablation("generation of snapshot", ALL_ENDED, "the certificate matches the chunks"),
    Ablation("first generation in skip", LATE_COUNT, STUCK),
    Ablation("reconciler finishes", ONE_COUNTS, STUCK),
    Ablation("notification with its cause", ONE_NOTIFIER, STUCK),
    Ablation("active until delivered", ONE_NOTIFIER, STUCK),
    Ablation("reconciler dispatches", ONE_NOTIFIER, STUCK),
    Ablation("active in reopen", NOTIFICATIONS, STAYS_ACTIVE),
    Ablation("generation in close", NOTIFICATIONS, STAYS_ACTIVE),
    Ablation("due in claim", NOTIFICATIONS, "no claimed row is claimed again"),
    Ablation("owner in abandon", NOTIFICATIONS, "only the owner abandons a row"),
    Ablation("limit of attempts", NOTIFICATIONS, "calls of the hook are bounded"),
    Ablation("delivered after the call", NOTIFICATIONS, "a DELIVERED row was received"),
    Ablation("claims since untried", DEFERRALS, PAST_PIVOT),
    Ablation("called in this claim", DEFERRALS, PAST_PIVOT),
    Ablation("refund in defer", DEFERRALS, "only failures spend attempts"),
    Ablation("recovery claim in refund", DEFERRALS, REFUNDS_COUNTED),
    Ablation("limit of deferrals", OUTAGE, STUCK),
    Ablation("limit of deferrals in compensation", OUTAGE, STUCK),
    Ablation("limit of breaker waits", OPEN_BREAKER, STUCK),
    Ablation("higher limit in compensation", OPEN_BREAKER, STUCK),
    Ablation("deferred chunks are swept again", DEFERRED_CANCEL, STUCK),
    Ablation("dispatch time is recorded", LONG_WAITS, STUCK),
    Ablation("next dispatch time is recorded", LONG_WAITS, STUCK),
)
