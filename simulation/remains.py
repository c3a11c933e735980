"""Bury what a world leaves behind: nothing of a dead process runs once more.

A coroutine that is collected runs its `finally` blocks. Inside a schedule that would
be a dead process at work; after it, noise.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.world import World

#: Whether memory is given back as CPython does it.
REFERENCE_COUNTED = sys.implementation.name == "cpython"


@contextmanager
def leftovers_discarded(world: World) -> Iterator[None]:
    """Collect no garbage inside, and close at the end what never came to its own."""
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
    """Collect nothing inside but when asked, and look then only at what is new."""
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
    """Collect what a schedule leaves behind, at a moment when nothing of it is needed.

    Where memory is not counted, a collection looks at all there is, and costs more.
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
                # What it says on its way out is nobody's concern any more.
                with suppress(BaseException):
                    work: Any = task.get_coro()
                    work.close()
        process.tasks.clear()
