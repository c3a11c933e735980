"""Connect for reading only, in a tenth of the time that `piecework.runtime` takes.

Where the direct reads are not sound, the reads go through the whole runtime. So do the
reads after the first one that was not a plain success. The user sees the errors of the
runtime.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from piecework.aws.endpoint import Endpoint, ServiceClock, find_endpoint
from piecework.aws.objects import OBJECT_LIMIT, Objects
from piecework.aws.transport.access import Access, find_access
from piecework.aws.transport.connections import Connections
from piecework.aws.transport.direct import DirectClient, tls_context
from piecework.settings import Settings
from piecework.store.completion import Tallies
from piecework.store.jobs import Jobs
from piecework.store.table import Table

if TYPE_CHECKING:
    from piecework.runtime import Runtime

#: Connections at once; a command reads few things side by side.
CONNECTIONS = 8
#: Seconds to connect, and to wait for a response.
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5.0, 10.0
#: The account of the embedded AWS.
EMBEDDED_ACCOUNT = "000000000000"


class ObjectReader(Protocol):
    """Reads objects of the bucket."""

    async def get(
        self, key: str, *, start: int = 0, length: int = 0, most: int = OBJECT_LIMIT
    ) -> bytes:
        """Read an object, or a part; see `piecework.aws.objects.Objects`."""


class Reading(Protocol):
    """The parts of a runtime that commands read from."""

    @property
    def settings(self) -> Settings:
        """The settings of the process."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of AWS."""

    @property
    def table(self) -> Table:
        """The table of jobs and chunks."""

    @property
    def dead_letters(self) -> Table:
        """The table of dead letters."""

    @property
    def objects(self) -> ObjectReader:
        """The bucket."""

    @property
    def jobs(self) -> Jobs:
        """The jobs in the table."""

    @property
    def tallies(self) -> Tallies:
        """The numbers of ended chunks."""

    @property
    def clock(self) -> Callable[[], float]:
        """The time of AWS in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class DirectReading:
    """The parts of a runtime without the SDK."""

    settings: Settings
    endpoint: Endpoint
    table: Table
    dead_letters: Table
    objects: ObjectReader
    jobs: Jobs
    tallies: Tallies
    clock: Callable[[], float]


class WholeRuntime:
    """The runtime with the SDK, opened when it is used first."""

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self._settings, self._stack = settings, stack
        self._lock = asyncio.Lock()
        self._opened: Runtime | None = None

    async def open(self) -> Runtime:
        """Return the runtime; the stack closes it."""
        from piecework import runtime  # loads the SDK

        async with self._lock:
            if self._opened is None:
                self._opened = await self._stack.enter_async_context(
                    runtime.connect(self._settings)
                )
            return self._opened

    async def dynamodb(self) -> Any:
        """Return the client of the tables."""
        return (await self.open()).table.client

    async def s3(self) -> Any:
        """Return the client of the bucket."""
        return (await self.open()).objects.client

    async def sts(self) -> Any:
        """Return the client that knows the account."""
        from piecework.runtime import session_for

        client = session_for((await self.open()).endpoint).client("sts")
        return await self._stack.enter_async_context(client)

    async def get(
        self, key: str, *, start: int = 0, length: int = 0, most: int = OBJECT_LIMIT
    ) -> bytes:
        """Read an object, or a part."""
        objects = (await self.open()).objects
        return await objects.get(key, start=start, length=length, most=most)


@dataclass(frozen=True, slots=True)
class BucketOfAccount:
    """The bucket, whose name needs the number of the account."""

    sts: DirectClient
    s3: Any
    settings: Settings
    region: str

    async def get(
        self, key: str, *, start: int = 0, length: int = 0, most: int = OBJECT_LIMIT
    ) -> bytes:
        """Read an object, or a part."""
        account = (await self.sts.get_caller_identity())["Account"]
        objects = Objects(self.s3, self.settings.bucket(account, self.region))
        return await objects.get(key, start=start, length=length, most=most)


@asynccontextmanager
async def connect_for_reading(settings: Settings) -> AsyncIterator[Reading]:
    """Connect to the deployment that the settings name, for reading only.

    Raises:
        PieceworkError: As `piecework.runtime.connect`, at the first read.
    """
    endpoint = find_endpoint()
    access = find_access(endpoint, os.environ)
    async with AsyncExitStack() as stack:
        whole = WholeRuntime(settings, stack)
        if access is None or settings.aws_transport != "thin":
            yield await whole.open()
        else:
            yield read_directly(settings, endpoint, access, whole, stack)


def read_directly(
    settings: Settings,
    endpoint: Endpoint,
    access: Access,
    whole: WholeRuntime,
    stack: AsyncExitStack,
) -> DirectReading:
    """Return the parts with clients that request plain reads themselves."""
    connections = Connections(
        CONNECTIONS, CONNECT_TIMEOUT_S, READ_TIMEOUT_S, tls_context
    )
    stack.push_async_callback(connections.close)
    clock, rng = ServiceClock(), random.Random()
    dynamodb: Any = DirectClient(access, "dynamodb", connections, whole.dynamodb)
    table = Table(dynamodb, settings.checkpoints_table, rng, clock=clock)
    objects: ObjectReader = whole
    s3_access = find_access(endpoint, os.environ, "s3")
    sts_access = find_access(endpoint, os.environ, "sts")
    if s3_access is not None and sts_access is not None:
        s3: Any = DirectClient(s3_access, "s3", connections, whole.s3)
        sts = DirectClient(sts_access, "sts", connections, whole.sts)
        objects = BucketOfAccount(sts, s3, settings, s3_access.region)
        if endpoint.source == "embedded":
            bucket = settings.bucket(EMBEDDED_ACCOUNT, endpoint.region)
            objects = Objects(s3, bucket)
    return DirectReading(
        settings=settings,
        endpoint=endpoint,
        table=table,
        dead_letters=Table(dynamodb, settings.dead_letters_table, rng),
        objects=objects,
        jobs=Jobs(table, clock),
        tallies=Tallies(table),
        clock=clock,
    )
