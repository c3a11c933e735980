"""An event loop of asyncio in virtual time: what only waits takes no time."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Mapping
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """Moves its clock on to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self.moment = 1_000.0
        super().__init__(Skipping(self))

    def time(self) -> float:
        """Return the virtual time."""
        return self.moment

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
        """Wait for real only if no timer is pending."""
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
