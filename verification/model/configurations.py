"""Define the explored configurations.

Each omits some parts, so that the rest can be explored completely. Together they cover
everything.
"""

from __future__ import annotations

from verification.model.asked import ASKED
from verification.model.births import BIRTHS, SIGNS
from verification.model.notices import NOTICES, TIMED
from verification.model.parks import HOPELESS, PARKS, SHUT
from verification.model.state import Config
from verification.model.tallies import TALLIES
from verification.model.theme import Theme
from verification.model.waits import WAITS_LONG

#: A step with a compensation, and the pivot.
UNDO = Config(
    "a cancel that undoes",
    chunks=1,
    stages=2,
    pivot=1,
    effects=True,
    attempts=1,
    cancel=True,
    undo=True,
    sent=True,
    workers=1,
)
#: The small models of single parts of the protocol.
THEMES: tuple[Theme, ...] = (
    BIRTHS,
    SIGNS,
    TALLIES,
    NOTICES,
    TIMED,
    PARKS,
    HOPELESS,
    SHUT,
    ASKED,
    WAITS_LONG,
)

CONFIGURATIONS: tuple[Config | Theme, ...] = (
    Config("one chunk, two workers, letters", chunks=1, attempts=1, letters=True),
    Config("one chunk, duplicates", chunks=1, attempts=1, duplicates=True),
    Config("one chunk, two attempts", chunks=1),
    Config("one chunk, failures and releases", chunks=1, failures=True, releases=True),
    Config("two chunks, one worker", workers=1, attempts=1, loss=False),
    Config("two chunks, two workers", attempts=1),
    Config("cancel", chunks=1, attempts=1, cancel=True),
    Config(
        "cancel, resume, cancel",
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
    UNDO._replace(name=f"{UNDO.name}, failures", attempts=2, failures=True),
    UNDO._replace(name=f"{UNDO.name}, late requests", flying=True, failures=True),
    UNDO._replace(name=f"{UNDO.name}, two workers", workers=2, loss=False),
    UNDO._replace(name=f"{UNDO.name}, resume", gens=2, loss=False, share=12),
    UNDO._replace(name="a deadline that undoes", cancel=False, deadline=True),
    Config(
        "deadline, resume",
        chunks=1,
        attempts=1,
        gens=2,
        deadline=True,
        sent=True,
        share=12,
        workers=1,
        loss=False,
    ),
    *THEMES,
)
