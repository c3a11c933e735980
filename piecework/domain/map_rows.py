"""What `ctx.map` asks for: the rows of a child job.

The rows are spooled to a temporary file, so that a stage may pass more than fit into
memory. Their hash is a part of the child's id.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

from piecework.domain import keys
from piecework.domain.chunk_input import ChunkInput, label_of
from piecework.domain.order_key import read_order_key
from piecework.domain.payload import describe_payload_error, encode_payload
from piecework.errors import PieceworkError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

#: The payload and the result of a pipeline.
Q_co = TypeVar("Q_co", bound="BaseModel", covariant=True)
Q_contra = TypeVar("Q_contra", contravariant=True)
W_co = TypeVar("W_co", covariant=True)

#: Bytes of the rows that stay in memory; more go to a temporary file.
IN_MEMORY_BYTES = 1 << 20


class RowPipeline(Protocol[Q_co]):
    """A pipeline, as far as its rows and their results need it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def payload(self) -> type[Q_co]:
        """The model of its payloads."""

    @property
    def label(self) -> Callable[[Any], str] | None:
        """The function that names a chunk in tables."""

    @property
    def ordered_by(self) -> Callable[[Any], str | int | None] | None:
        """The order key of a payload."""

    @property
    def stages(self) -> Sequence[Any]:
        """Its stages."""

    @property
    def result_index(self) -> int:
        """The position of the stage whose value is the result."""


class RowFunction(Protocol[Q_contra, W_co]):
    """A function of a payload that is a pipeline of one stage."""

    def __call__(self, payload: Q_contra, /) -> Awaitable[W_co]:
        """Run the function outside of a job."""

    @property
    def declared(self) -> RowPipeline[Any]:
        """The pipeline that workers use."""


def new_spool() -> IO[bytes]:
    """Return a file that is in memory until it is large."""
    return tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES)


@dataclass(slots=True)
class MapRows:
    """The rows of one `ctx.map`, checked as a worker will read them.

    Attributes:
        pipeline: The pipeline that runs them.
        count: How many there are.
        digest: Their hash; equal rows have equal hashes.
    """

    pipeline: RowPipeline[Any]
    count: int = 0
    digest: str = ""
    _spool: IO[bytes] = field(default_factory=new_spool)

    async def inputs(self) -> AsyncIterator[ChunkInput]:
        """Yield the rows as inputs of chunks, in order."""
        self._spool.seek(0)
        while head := self._spool.readline():
            label, order_key = json.loads(head)
            payload = self._spool.readline()[:-1]
            yield ChunkInput(label, payload, order_key)

    def write(self, row: ChunkInput, digest: Any) -> None:
        """Add a row."""
        head = json.dumps([row.label, row.order_key]).encode()
        for line in (head, row.payload):
            self._spool.write(line + b"\n")
            digest.update(line + b"\n")
        self.count += 1

    async def copy(self) -> MapRows:
        """Return the rows apart from these, which may be closed."""
        other = MapRows(self.pipeline, digest=self.digest)
        async for row in self.inputs():
            other.write(row, hashlib.sha256())
        return other

    def close(self) -> None:
        """Forget the rows."""
        self._spool.close()


async def read_rows(
    pipeline: RowPipeline[Any], rows: Iterable[object] | AsyncIterable[object]
) -> MapRows:
    """Spool the rows of a `ctx.map`: payloads, or mappings of their fields.

    Raises:
        UsageError: As a submit: `input.payload.invalid`, `input.payload.too_large`,
            `input.label.failed`, `input.order.failed`, `input.order.invalid`,
            `input.chunks.too_many`.
    """
    found, digest = MapRows(pipeline), hashlib.sha256()
    try:
        async for row in each_of(rows):
            if found.count > keys.MAX_CHUNK_NUMBER:
                message = f"There are more than {keys.MAX_CHUNK_NUMBER:,} rows."
                raise UsageError(message, code="input.chunks.too_many")
            found.write(input_of(pipeline, row, found.count), digest)
    except BaseException:
        found.close()
        raise
    found.digest = digest.hexdigest()
    return found


async def each_of(
    rows: Iterable[object] | AsyncIterable[object],
) -> AsyncIterator[object]:
    """Yield the rows of either kind of iterable."""
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
    else:
        for row in rows:
            yield row


def input_of(pipeline: RowPipeline[Any], row: object, number: int) -> ChunkInput:
    """Return the input of one row; `number` counts from 0.

    Raises:
        UsageError: As `read_rows`.
    """
    where, model = f"row {number}", pipeline.payload
    payload = row
    if isinstance(row, Mapping):
        try:
            payload = model.model_validate(row)
        except PieceworkError:
            raise
        except Exception as error:
            told = describe_payload_error(error)
            message = f"Row {number} is not a {model.__name__}: {told}."
            raise UsageError(message, code="input.payload.invalid") from error
    encoded = encode_payload(model, payload, where)
    order_key = read_order_key(pipeline.ordered_by, payload, where)
    return ChunkInput(label_of(pipeline, payload, where, where), encoded, order_key)
