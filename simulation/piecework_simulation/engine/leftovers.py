"""Discard what a world leaves behind, without running any of its code.

A collected coroutine runs its `finally` blocks. During a schedule, a dead process would
act; after it, errors would be printed.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World

#: Whether the interpreter frees memory by reference counts, as CPython does.
REFERENCE_COUNTED = sys.implementation.name == "cpython"


@contextmanager
def leftovers_discarded(world: World) -> Iterator[None]:
    """Disable the garbage collector inside; close unfinished coroutines at the end."""
    hook, automatic = sys.unraisablehook, gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.unraisablehook = lambda _: None
        try:
            with warnings.catch_warnings():
                close_coroutines(world)
        finally:
            sys.unraisablehook = hook
            if automatic:
                gc.enable()


@contextmanager
def collecting_manually() -> Iterator[None]:
    """Collect garbage only on request inside, and then only objects created inside."""
    automatic = gc.isenabled()
    gc.disable()
    if REFERENCE_COUNTED:
        gc.freeze()
    try:
        yield
    finally:
        if REFERENCE_COUNTED:
            gc.unfreeze()
        if automatic:
            gc.enable()


def collect() -> None:
    """Collect the garbage of a finished schedule.

    Without reference counts, a collection scans all objects and costs more; it is
    skipped.
    """
    if REFERENCE_COUNTED:
        gc.collect()


def close_coroutines(world: World) -> None:
    """Close the coroutines of every process, ended or not."""
    warnings.simplefilter("ignore", RuntimeWarning)  # of work that never began
    for process in [world.loop.world, *world.processes]:
        for task in process.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001
            if not task.done():
                # Errors during the close are irrelevant.
                with suppress(BaseException):
                    work: Any = task.get_coro()
                    work.close()
        process.tasks.clear()
