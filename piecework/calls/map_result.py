"""What `ctx.map` returns: the outcome of each row, read when the stage asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from piecework.domain import values
from piecework.domain.protocols import ChildResults, RowFailure
from piecework.errors import PermanentError

V = TypeVar("V", default=Any)

#: The code of `MapResult.values` if a row has no result.
ROW_FAILED_CODE = "runtime.map.row_failed"


@dataclass(frozen=True, slots=True)
class RowResult(Generic[V]):
    """The result of a row.

    Attributes:
        row: Its position among the rows, from 0.
        label: Its label, as its pipeline names it.
    """

    row: int
    label: str
    value: V


@dataclass(slots=True)
class MapResult(Generic[V]):
    """The outcome of the rows of a `ctx.map`; nothing of it is in memory.

    Iterate it with `async for`: the rows with a result, in order.

    Attributes:
        job: The id of the child job; empty: there was no row, so there is no job.
        status: How the child ended, such as `SUCCEEDED` or `PARTIAL`.
        rows: The number of rows.
        succeeded: How many of them have a result.
    """

    job: str
    status: str
    rows: int
    succeeded: int
    _stored: ChildResults = field(repr=False)
    _result_of: Callable[..., Any] = field(repr=False)
    _note: Callable[[str], None] = field(repr=False)

    @property
    def failed(self) -> int:
        """How many rows have no result."""
        return self.rows - self.succeeded

    async def __aiter__(self) -> AsyncIterator[RowResult[V]]:
        """Yield each row with a result, in order, one in memory at a time."""
        async for stored in self._stored.results():
            self._note(stored.value)
            value = values.decode(self._result_of, stored.value)
            yield RowResult(stored.chunk, stored.label, value)

    async def failures(self) -> AsyncIterator[RowFailure]:
        """Yield each row without a result, in order, with code and message."""
        async for failure in self._stored.failures():
            self._note("null")
            yield failure

    async def values(self) -> list[V]:
        """Return the results of all rows, in order.

        Raises:
            PermanentError: `runtime.map.row_failed`: a row has none; the message names
                the first one.
        """
        async for failure in self.failures():
            message = (
                f"{self.failed} of {self.rows} rows of child job {self.job} have no "
                f"result; row {failure.row} ended {failure.status} with "
                f"{failure.code or 'no code'}."
            )
            raise PermanentError(message, code=ROW_FAILED_CODE)
        return [found.value async for found in self]


@dataclass(frozen=True, slots=True)
class NoRows:
    """The results of no rows."""

    async def results(self) -> AsyncIterator[Any]:
        """Yield nothing."""
        for nothing in list[Any]():
            yield nothing

    async def failures(self) -> AsyncIterator[Any]:
        """Yield nothing."""
        for nothing in list[Any]():
            yield nothing
