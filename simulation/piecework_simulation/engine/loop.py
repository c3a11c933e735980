"""Run many processes on one event loop in virtual time; the seed sets their order.

Within a process, callbacks run in order, as asyncio guarantees. Between processes, any
order is possible. A process can stop for ever, or for a while, between two callbacks:
at any `await`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

from piecework_simulation.engine.callbacks import Callback, NumberedFuture, NumberedTask
from piecework_simulation.engine.process import PROCESS, Process, context_of
from piecework_simulation.engine.sandbox import refuse_blocking_io, refuse_network

R = TypeVar("R")

#: Clock seconds at the start; not 0, so that a missing time is detected.
BEGIN = 1_000.0


class Loop(asyncio.AbstractEventLoop):
    """The event loop. It has no sockets, because the simulator has no network."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.moment = BEGIN
        self.world = Process("world")
        self.on_fuse_end: Callable[[Process], None] = lambda _: None
        self.errors: list[str] = []
        self._timers: list[tuple[float, int, Callback]] = []
        self._runnable: list[Process] = []
        self._numbers = 0
        self._finished = False

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine, and all other tasks, until the coroutine ends."""
        refuse_blocking_io(Loop)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._close_generator)
        earlier = asyncio._get_running_loop()  # noqa: SLF001 -- as asyncio's own loops do
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            task = self.create_task(work, context=context_of(self.world))
            self._run_until(task)
            result: R = task.result()
            return result
        finally:
            self._finished = True
            asyncio._set_running_loop(earlier)  # noqa: SLF001
            sys.set_asyncgen_hooks(*hooks)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close an unreferenced generator, as asyncio does.

        After the end of the world, it is dropped silently.
        """
        if not self._finished:
            self.create_task(generator.aclose())

    def _run_until(self, task: asyncio.Task[Any]) -> None:
        """Run one callback of a random process after another, until a task is done."""
        runnable, draw = self._runnable, self.rng.random
        while not task.done():
            if not runnable:
                self._next_timer()
                continue
            index = int(draw() * len(runnable)) if len(runnable) > 1 else 0
            process = runnable[index]
            if process.fuse:
                process.fuse -= 1
                if not process.fuse:
                    self.on_fuse_end(process)
                    continue
            ready = process.ready
            handle = ready.popleft()
            if not ready:
                del runnable[index]
            callback = handle.callback
            if callback is None:  # it was cancelled
                continue
            try:
                handle.context.run(callback, *handle.args)
            except Exception as error:  # noqa: BLE001 -- the loop continues
                name = getattr(callback, "__qualname__", callback)
                self.errors.append(f"Exception in callback {name}: {error!r}")

    def _next_timer(self) -> None:
        """Move time on to the next thing that happens."""
        timers = self._timers
        while timers:
            when, _, timer = heappop(timers)
            if timer.callback is not None:  # else it was cancelled
                self.moment = max(self.moment, when)
                self._enqueue(timer)
                return
        message = "Deadlock: no callback is runnable and no timer is pending."
        raise RuntimeError(message)

    def _enqueue(self, handle: Callback) -> None:
        process = handle.context.get(PROCESS, self.world)
        if process.dead or self._finished:
            return
        ready = process.ready
        if not ready and not process.frozen:
            self._runnable.append(process)
        ready.append(handle)

    def _not_runnable(self, process: Process) -> None:
        if process in self._runnable:
            self._runnable.remove(process)

    # ── faults of a process ─────────────────────────────────────────────────

    def kill(self, process: Process) -> None:
        """End a process between two callbacks: nothing of it runs any more."""
        process.dead = True
        process.ready.clear()
        self._not_runnable(process)

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process for a while, as SIGSTOP or a paused machine does."""
        if process.dead or process.frozen:
            return
        process.frozen = True
        process.frozen_until = self.moment + seconds
        self._not_runnable(process)
        context = context_of(self.world)
        self.call_later(seconds, self._end_freeze, process, context=context)

    def _end_freeze(self, process: Process) -> None:
        """Continue a process, unless it was frozen anew since."""
        if self.moment >= process.frozen_until:
            self.thaw(process)

    def thaw(self, process: Process) -> None:
        """Continue a frozen process; it does not learn that it was frozen."""
        if process.frozen and not process.dead:
            process.frozen = False
            process.thawed_at = self.moment
            if process.ready:
                self._runnable.append(process)

    # ── the event loop interface of asyncio ─────────────────────────────────

    def _next_number(self) -> int:
        """Return a number that nothing else has."""
        self._numbers += 1
        return self._numbers

    def time(self) -> float:
        """Return the virtual time."""
        return self.moment

    def call_soon(  # type: ignore[override] # any callback
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Callback:
        """Run a callback next in its process."""
        if context is None:
            context = copy_context()
        handle = Callback(callback, args, context)
        self._enqueue(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment] # one thread

    def call_later(  # type: ignore[override] # any callback
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        """Run a callback so many seconds from now."""
        return self.call_at(self.moment + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override] # any callback
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        """Run a callback at a moment."""
        if context is None:
            context = copy_context()
        timer = Callback(callback, args, context)
        self._numbers += 1
        heappush(self._timers, (when, self._numbers, timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future."""
        future = NumberedFuture(loop=self)
        self._numbers = future.number = self._numbers + 1
        return future

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[Any]:
        """Start a task in the process of the caller."""
        number = self._next_number()
        task = NumberedTask(number, coro, loop=self, name=name, context=context)
        process = context[PROCESS] if context else PROCESS.get(self.world)
        process.tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override] # any function
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a blocking function at once: in virtual time, it does not block."""
        del executor
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 -- it is the caller's
            future.set_exception(error)
        return future

    async def refuse_io(self, *_: Any, **__: Any) -> Any:
        """Refuse network and subprocess operations."""
        refuse_network()

    getaddrinfo = create_connection = sock_connect = refuse_io
    create_unix_connection = subprocess_exec = subprocess_shell = refuse_io

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an unhandled error."""
        self.errors.append(f"{context['message']}: {context.get('exception')!r}")

    def get_debug(self) -> bool:
        """Return False: asyncio's debug mode is off."""
        return False

    def is_running(self) -> bool:
        """Return whether the loop is running."""
        return not self._finished

    def is_closed(self) -> bool:
        """Return whether the loop has finished."""
        return self._finished
