"""Remove one guard of the protocol at a time, and name the property that must fail."""

from __future__ import annotations

from typing import NamedTuple

from verification.model import births, notices, tallies
from verification.model.asked import ASKED
from verification.model.checker import STUCK
from verification.model.configurations import UNDO
from verification.model.parks import HOPELESS, PARKS, SHUT
from verification.model.space import LEFT_BEHIND
from verification.model.state import Config
from verification.model.theme import Theme
from verification.model.waits import WAITS_LONG

TINY = Config("tiny", chunks=1, workers=1, attempts=1)
ONE = Config("one chunk", chunks=1)
AGAIN = Config("again", chunks=1, gens=2, attempts=1, failures=True)
CANCEL = Config("cancel", chunks=1, cancel=True)
PAIR = Config("pair", gens=2, attempts=1, workers=1, failures=True)
STOPPED = Config(
    "stopped", chunks=1, gens=2, attempts=1, workers=1, cancel=True, loss=False
)
EFFECT = Config("effect", chunks=1, effects=True)
SAGA = Config(
    "saga", chunks=1, stages=3, pivot=2, effects=True, failures=True, attempts=1
)
LATE = Config("late", chunks=1, attempts=1, workers=1, deadline=True, sent=True)
BIRTHS, SIGNS, ALONE = births.BIRTHS, births.SIGNS, births.ALONE
NOTICES, TOLD_BY_ONE = notices.NOTICES, notices.TOLD_BY_ONE


class Ablation(NamedTuple):
    """A guard, the run in which it is missing, and the property that must fall."""

    guard: str
    config: Config | Theme
    breaks: str

    @property
    def without(self) -> Config | Theme:
        off = self.config.off | {self.guard}
        return self.config._replace(off=off, name=f"without {self.guard}")


ENDED_STAYS = "an ended chunk stays ended"
COMPLETED_ONCE = "one completion a generation"
STANDS = "what a cancel winds back does not stand"
PAST_PIVOT = "nothing is undone past the pivot"
UNDONE_STAYS = "what was undone stays undone"
FOUND = "a job that goes on is found"

ABLATIONS = (
    Ablation("resend", TINY, STUCK),
    Ablation("give-back", TINY, STUCK),
    Ablation("drain", TINY._replace(letters=True), STUCK),
    Ablation("finish submit", TINY, STUCK),
    Ablation("finish", TINY, STUCK),
    Ablation("finish resume", TINY._replace(gens=2, failures=True, loss=False), STUCK),
    Ablation("status in claim", ONE, ENDED_STAYS),
    Ablation("lease in claim", ONE, "a live lease is not taken"),
    Ablation("gen in claim", AGAIN, "a message of an earlier life starts nothing"),
    Ablation("attempts in claim", ONE, "attempts are bounded"),
    Ablation("cancel flag in claim", CANCEL, "no claim of a chunk asked to stop"),
    Ablation("held in settle", ONE, COMPLETED_ONCE),
    Ablation("fence and token", ONE, "only the holder settles"),
    Ablation("fence in intent", EFFECT, "only a holder begins an effect"),
    Ablation("heartbeat in give-back", ONE, "a holder that beats is not robbed"),
    Ablation("loser leaves the message", ONE, "a living chunk keeps its message"),
    Ablation("settle before tally", ONE, "only what has ended is counted"),
    Ablation("census", PAIR, LEFT_BEHIND),
    Ablation("state in finalize", AGAIN, "a finisher moves only its own generation"),
    Ablation("job in add", CANCEL._replace(chunks=2, workers=1), LEFT_BEHIND),
    Ablation("job in reopen", STOPPED, "no chunk is reopened under an ended job"),
    Ablation("REOPENING", PAIR, "a finisher waits for the reopening"),
    Ablation(
        "generation in sweep",
        AGAIN._replace(cancel=True),
        "a cancel ends no later life",
    ),
    Ablation("direction in cancel", SAGA._replace(cancel=True), "no undo is cut off"),
    Ablation("ledger", STOPPED._replace(effects=True), "an effect stands once"),
    Ablation("provider key", EFFECT, "an effect happens once an epoch"),
    Ablation("compensation key", SAGA, "nothing is compensated twice"),
    Ablation("reverse order", SAGA, "undone in reverse"),
    Ablation("pivot in doubt", SAGA, PAST_PIVOT),
    Ablation("cut by own clock", SAGA, UNDONE_STAYS),
    Ablation(
        "release keeps a spent attempt",
        SAGA._replace(releases=True, workers=1, loss=False),
        "no attempt is handed back that was not taken",
    ),
    Ablation(
        "takeover keeps a spent attempt",
        SAGA._replace(releases=True, workers=1, loss=False),
        "no attempt is handed back that was not taken",
    ),
    Ablation("begun in sweep", UNDO, STANDS),
    Ablation("undo in claim", UNDO, STANDS),
    Ablation("pivot in turn", UNDO._replace(attempts=2), PAST_PIVOT),
    Ablation("holder winds back", UNDO, STANDS),
    Ablation("dead leases are wound back", UNDO, STANDS),
    Ablation("way back is not cut off", UNDO, STANDS),
    Ablation("undo in rescue", UNDO._replace(stages=1, pivot=9), STUCK),
    Ablation("lands first", UNDO._replace(flying=True), UNDONE_STAYS),
    Ablation("state in expire", LATE, "a deadline moves no job that is ending"),
    Ablation(
        "deadline goes",
        LATE._replace(gens=2),
        "a passed deadline ends no later life",
    ),
    Ablation("absent in create", BIRTHS, "a job that exists is not made again"),
    Ablation("job in birth", BIRTHS, "no chunk is born behind a cancel"),
    Ablation("life in birth", BIRTHS, "a chunk is born in the life of its job"),
    Ablation("absent in put", BIRTHS, "what is there is not born again"),
    Ablation("state in open", BIRTHS, "only a job that is being submitted is opened"),
    Ablation("open before send", BIRTHS, "nobody begins before all chunks are there"),
    Ablation("unopened goes back", BIRTHS, "a job that runs has all its chunks"),
    Ablation("unwritten are certified", ALONE, STUCK),
    Ablation("sign of life", SIGNS, "a submit that gets on is not finished by others"),
    Ablation("snapshot of all chunks", tallies.ALL_ENDED, LEFT_BEHIND),
    Ablation("life in finalize", tallies.ALL_ENDED, LEFT_BEHIND),
    Ablation("life in what is kept", tallies.ALL_ENDED, "a certificate says what is"),
    Ablation("first life in sparing", tallies.LATE_COUNT, STUCK),
    Ablation("reconciler finishes", tallies.ONE_COUNTS, STUCK),
    Ablation("notice with its cause", TOLD_BY_ONE, STUCK),
    Ablation("found until told", TOLD_BY_ONE, STUCK),
    Ablation("reconciler hands out", TOLD_BY_ONE, STUCK),
    Ablation("mark in reopen", NOTICES, FOUND),
    Ablation("life in close", NOTICES, FOUND),
    Ablation("due in take", NOTICES, "nobody takes what another one has"),
    Ablation("ours in give-up", NOTICES, "nobody gives up what another one has"),
    Ablation("tries are bounded", NOTICES, "a hook is called so often and no more"),
    Ablation("told after the call", NOTICES, "what is TOLD was heard"),
    Ablation("fence of the untried", PARKS, PAST_PIVOT),
    Ablation("asked in this claim", PARKS, PAST_PIVOT),
    Ablation(
        "what was counted is handed back",
        PARKS,
        "only what failed has spent its attempts",
    ),
    Ablation(
        "a recovery is handed back as such",
        PARKS,
        "no attempt is handed back that was not taken",
    ),
    Ablation("waits for a retry are bounded", HOPELESS, STUCK),
    Ablation("deferrals of a compensation are bounded", HOPELESS, STUCK),
    Ablation("waits for a breaker are bounded", SHUT, STUCK),
    Ablation("a compensation waits twice as long", SHUT, STUCK),
    Ablation("the parked are asked again", ASKED, STUCK),
    Ablation("due on record", WAITS_LONG, STUCK),
    Ablation("the next one on record", WAITS_LONG, STUCK),
)
