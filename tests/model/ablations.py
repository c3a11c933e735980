"""One guard of the protocol taken away at a time, and what must break without it."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.checker import LEFT_BEHIND, STUCK
from tests.model.state import Config

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


class Ablation(NamedTuple):
    """A guard, the run in which it is missing, and the property that must fall."""

    guard: str
    config: Config
    breaks: str

    @property
    def without(self) -> Config:
        off = self.config.off | {self.guard}
        return self.config._replace(off=off, name=f"without {self.guard}")


ENDED_STAYS = "an ended chunk stays ended"
COMPLETED_ONCE = "one completion a generation"

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
    Ablation("RESUMING", PAIR, "a finisher waits for the reopening"),
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
    Ablation("pivot in doubt", SAGA, "nothing is undone past the pivot"),
    Ablation("cut by own clock", SAGA, "what was undone stays undone"),
    Ablation(
        "release keeps a spent attempt",
        SAGA._replace(releases=True, workers=1, loss=False),
        "no attempt is handed back that was not taken",
    ),
)
