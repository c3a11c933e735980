"""An event loop of asyncio in virtual time: what only waits takes no time."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class VirtualProcess:
    """What may be killed at once: none of its callbacks runs any more."""

    dead: bool = False
    parked: list[tuple[Context, Callable[..., object], Any]] = field(
        default_factory=list
    )

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in this process; tasks that it starts are in it, too."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def run(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback, unless the process is dead."""
        if self.dead:
            self.parked.append((copy_context(), callback, args))
        else:
            callback(*args)

    def kill(self) -> None:
        """Stop it between two callbacks."""
        self.dead = True

    def bury(self) -> None:
        """Let its tasks end, after the test: the loop cancels and awaits all tasks."""
        self.dead = False
        for context, callback, args in self.parked:
            asyncio.get_running_loop().call_soon(callback, *args, context=context)


PROCESS: ContextVar[VirtualProcess | None] = ContextVar("PROCESS", default=None)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Moves its clock on to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self.moment = 1_000.0
        super().__init__(Skipping(self))

    def time(self) -> float:
        """Return the virtual time."""
        return self.moment

    def call_soon(  # type: ignore[override] # any callback
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback next, in the process of its context."""
        context = context or copy_context()
        if process := context.get(PROCESS):
            return super().call_soon(process.run, callback, *args, context=context)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override] # any callback
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a moment, in the process of its context."""
        context = context or copy_context()
        if process := context.get(PROCESS):
            return super().call_at(when, process.run, callback, *args, context=context)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override] # any function
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function on a thread to its end: meanwhile no virtual time passes."""
        del executor
        future = self.create_future()

        def work() -> None:
            try:
                future.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 -- it is the caller's
                future.set_exception(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return future


class Skipping(selectors.DefaultSelector):
    """Reports what is ready, else lets the time pass at once."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> Any:
        """Move the clock of the loop instead of waiting."""
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            message = "Deadlock: no callback is runnable and no timer is pending."
            raise RuntimeError(message)
        self.loop.moment += timeout
        return []


VIRTUAL: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "virtual": VirtualLoop
}
