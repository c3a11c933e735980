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

#: Objects made since the last collection, from which on there is one.
ENOUGH = 200_000


@contextmanager
def remains_at_rest(world: World) -> Iterator[None]:
    """Collect no garbage inside, and close at the end what never came to its own."""
    hook = sys.unraisablehook
    gc.disable()
    try:
        yield
    finally:
        sys.unraisablehook = lambda _: None
        try:
            with warnings.catch_warnings():
                close(world)
            if gc.get_count()[0] > ENOUGH:
                gc.collect()
        finally:
            sys.unraisablehook = hook
            gc.enable()


def close(world: World) -> None:
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
