"""What is explored: each run leaves some things out, so that the rest is looked at
whole; together they have everything.
"""

from __future__ import annotations

from tests.model.state import Config

CONFIGURATIONS = (
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
)
