"""Open the AWS clients once, and build the stores and queues on them.

The code never passes an endpoint. The AWS variables select it; without them it is the
embedded AWS that `piecework up` recorded in `.piecework/`: see
`piecework.aws.endpoint`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from piecework.aws.endpoint import (
    Endpoint,
    ServiceClock,
    find_endpoint,
    state_folder,
)
from piecework.aws.objects import Objects
from piecework.aws.queue import Queue
from piecework.aws.transport.access import Access, find_access
from piecework.aws.transport.connections import Connections
from piecework.aws.transport.direct import DirectClient, Listeners, tls_context
from piecework.aws.trust import tls_error
from piecework.aws.work_queues import WorkQueues
from piecework.cost.meter import Actor, CostMeter, answered_to, asked, listen
from piecework.cost.persistence import Keeper, keeping
from piecework.errors import UnreachableError, UsageError
from piecework.errors.causes import type_names
from piecework.errors.classify import classify
from piecework.settings import Settings
from piecework.store.backlogs import Backlogs
from piecework.store.budgets import Budgets
from piecework.store.completion import SnapshotCache, Tallies
from piecework.store.costs import Costs
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs
from piecework.store.pipelines import PipelinePauses
from piecework.store.table import Table
from piecework.store.takeovers import Takeovers
from piecework.telemetry.emit import emit_throttles

if TYPE_CHECKING:
    from piecework.aws import AwsSession

#: Errors whose message says more than the code of AWS.
TOLD: Final = frozenset({"aws.clock.skewed", "aws.service.unavailable"})
#: The source of the credentials fails, not AWS: the user has to sign in again.
UNREADABLE: Final = frozenset(
    {
        "aws.credentials.invalid",
        "aws.credentials.missing",
        "aws.credentials.unavailable",
    }
)
#: botocore retries an AWS request only a few times, so that its retries and those of
#: piecework do not multiply. A request that still fails is retried by piecework.
RETRIES = {"mode": "standard", "total_max_attempts": 4}
USER_AGENT = "piecework"
#: Services whose frequent requests may bypass the SDK.
THIN = frozenset({"dynamodb", "sqs"})
#: Connections of a command that sends its requests without the SDK.
DIRECT_CONNECTIONS = 16
#: Seconds to wait for a response; a long poll waits so much longer.
READ_TIMEOUT_S = 10.0
#: Seconds to wait for a connection, and never longer than for a response.
CONNECT_TIMEOUT_S = 5.0
#: The time that a renewal waits for its response, as a share of the lease. It is half
#: of the time until the next renewal, so that a second attempt is still in time.
RENEWAL_TIMEOUT_SHARE = 1 / 6
#: The account of the embedded AWS.
EMBEDDED_ACCOUNT = "000000000000"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The clients, stores and settings of a worker or an orchestrator process."""

    settings: Settings
    endpoint: Endpoint
    table: Table
    dead_letters: Table
    work: WorkQueues
    dead_letter_queue: Queue
    #: The same table and queues through separate clients. So the renewal of a lease
    #: never waits for the requests of the work.
    renewal_table: Table
    renewal_queues: WorkQueues
    objects: Objects
    jobs: Jobs
    transitions: JobTransitions
    tallies: Tallies
    clock: Callable[[], float]
    rng: random.Random
    #: The identity whose credentials are used, as AWS names it; empty: not on AWS.
    identity: str = ""
    #: Meters the cost of requests and calls for each job.
    cost: CostMeter = field(default_factory=CostMeter)
    snapshots: SnapshotCache = field(default_factory=SnapshotCache)

    @property
    def budgets(self) -> Budgets:
        """The budgets of the deployment."""
        return Budgets(self.table, self.clock, self.rng)

    @property
    def pipelines(self) -> PipelinePauses:
        """The pauses of the pipelines."""
        return PipelinePauses(self.table, self.clock)

    @property
    def takeovers(self) -> Takeovers:
        """The writes on chunks without a live owner."""
        return Takeovers(self.table, self.settings, self.clock)

    @property
    def backlogs(self) -> Backlogs:
        """The backlogs of the deployment."""
        return Backlogs(self.table)


@asynccontextmanager
async def connect(
    settings: Settings,
    *,
    actor: Actor = "operator",
    clock: Callable[[], float] | None = None,
    rng: random.Random | None = None,
    session: AwsSession | None = None,
    direct: bool = False,
) -> AsyncIterator[Runtime]:
    """Connect to the deployment that the settings name.

    The default `clock` is the machine's, corrected by the dates of AWS responses.
    A `session` that the program has already says which account and region. `direct`:
    send requests without the SDK where that is sound; a command then starts in half of
    the time.

    Raises:
        UnreachableError: `aws.endpoint.unreachable`.
        UsageError: `aws.resource.not_found`: nothing is deployed under that name;
            `config.region.missing`; `aws.credentials.missing`;
            `aws.endpoint.untrusted`.
    """
    endpoint = find_endpoint()
    rng = rng or random.Random()
    service_clock = ServiceClock()
    time_of_day = clock or service_clock
    cost = CostMeter(actor, trusted=endpoint.source == "aws")
    async with AsyncExitStack() as stack:
        with explain_connect_errors(settings, endpoint):
            clients = Clients(session, stack, settings, endpoint, cost, direct=direct)
            sqs = await clients.open("sqs", settings.receive_wait_s + READ_TIMEOUT_S)
            work = await queue_url(sqs, settings.work_queue)
            dead = await queue_url(sqs, settings.dead_letter_queue)
            dynamodb = await clients.open("dynamodb")
            table = Table(
                dynamodb, settings.checkpoints_table, rng, clock=service_clock
            )
            renewal_timeout_s = max(1.0, settings.lease_s * RENEWAL_TIMEOUT_SHARE)
            renewals = await clients.open("dynamodb", renewal_timeout_s)
            bucket, identity = await bucket_and_identity(clients, settings, endpoint)
            runtime = Runtime(
                settings=settings,
                endpoint=endpoint,
                table=table,
                dead_letters=Table(dynamodb, settings.dead_letters_table, rng),
                work=WorkQueues(Queue(sqs, work, rng), settings.queue_name),
                dead_letter_queue=Queue(sqs, dead, rng),
                renewal_table=Table(renewals, settings.checkpoints_table, rng),
                renewal_queues=WorkQueues(
                    Queue(await clients.open("sqs", renewal_timeout_s), work, rng),
                    settings.queue_name,
                ),
                objects=Objects(await clients.open("s3"), bucket),
                jobs=Jobs(table, time_of_day),
                transitions=JobTransitions(
                    table, time_of_day, settings.job_retention_days
                ),
                tallies=Tallies(table),
                clock=time_of_day,
                rng=rng,
                identity=identity,
                cost=cost,
            )
            await stack.enter_async_context(keeping(Keeper(cost, Costs(table))))
        yield runtime


def session_for(endpoint: Endpoint) -> AwsSession:
    """Return the session; for the embedded AWS it ignores the user's profile.

    A broken profile must not stop the embedded AWS, and a valid one must not be used
    for it.
    """
    from piecework.aws.certificates import new_session  # loads the SDK

    embedded = endpoint.source == "embedded"
    return new_session(endpoint.region or None, ignore_profile=embedded)


@dataclass(slots=True)
class Clients:
    """Opens AWS clients; the stack closes them.

    Attributes:
        session: The session of the SDK; None: it is made when a client needs it.
        direct: Whether requests are sent without the SDK where that is sound.
    """

    session: AwsSession | None
    stack: AsyncExitStack
    settings: Settings
    endpoint: Endpoint
    cost: CostMeter
    direct: bool = False

    async def open(self, service: Any, read_timeout: float = READ_TIMEOUT_S) -> Any:
        """Open a client of a service."""
        access = self.access(service)
        if access is None:
            return await self.open_sdk(service, read_timeout)
        connections = Connections(
            DIRECT_CONNECTIONS,
            min(CONNECT_TIMEOUT_S, read_timeout),
            read_timeout,
            tls_context,
        )
        self.stack.push_async_callback(connections.close)
        opens = Once(partial(self.open_sdk, service, read_timeout))
        listeners = Listeners(asked, answered_to(self.cost, service))
        return DirectClient(access, service, connections, opens.get, listeners)

    def access(self, service: str) -> Access | None:
        """Return how a service is reached without the SDK; None: only by the SDK."""
        if not self.direct or self.settings.aws_transport != "thin":
            return None
        return find_access(self.endpoint, os.environ, service)

    async def open_sdk(self, service: Any, read_timeout: float) -> Any:
        """Open a client of the SDK."""
        from aiobotocore.config import AioConfig

        from piecework.aws.certificates import CheckedSession, checked
        from piecework.aws.transport.client import thin_client

        session = self.session = self.session or session_for(self.endpoint)
        config = AioConfig(
            retries=RETRIES,
            max_pool_connections=self.settings.max_chunks + 16,
            connect_timeout=min(CONNECT_TIMEOUT_S, read_timeout),
            read_timeout=read_timeout,
            # The parameters are built in one place and tested there. The SDK's check
            # costs a tenth of a request's CPU.
            parameter_validation=False,
            # Without this the SDK builds its name for each request, at another tenth.
            user_agent=USER_AGENT,
        )
        client = session.client(
            service, config=config, **self.endpoint.client_arguments()
        )
        opened = await self.stack.enter_async_context(client)
        if not isinstance(session, CheckedSession):
            checked(opened)
        listen(opened, self.cost)
        if self.settings.metrics != "off":
            emit_throttles(opened)
        if self.settings.aws_transport == "thin" and service in THIN:
            return thin_client(opened, self.stack)
        return opened

    def region(self) -> str:
        """Return the region of the clients; empty: the SDK finds none."""
        access = self.access("s3")
        if access is not None:
            return access.region
        return (self.session and self.session.region_name) or self.endpoint.region


@dataclass(slots=True)
class Once:
    """Opens something when it is asked for first."""

    opens: Callable[[], Awaitable[Any]]
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _opened: Any = None

    async def get(self) -> Any:
        """Return what was opened."""
        async with self._lock:
            if self._opened is None:
                self._opened = await self.opens()
            return self._opened


async def queue_url(sqs: Any, name: str) -> str:
    """Return the URL of a queue."""
    reply = await sqs.get_queue_url(QueueName=name)
    return str(reply["QueueUrl"])


async def bucket_and_identity(
    clients: Clients, settings: Settings, endpoint: Endpoint
) -> tuple[str, str]:
    """Return the name of the bucket, and the caller's identity on AWS.

    The account number makes the name of the bucket unique. Its reply names the caller.
    """
    if endpoint.source == "embedded":
        return settings.bucket(EMBEDDED_ACCOUNT, endpoint.region), ""
    sts = await clients.open("sts")
    reply = await sts.get_caller_identity()
    identity = str(reply.get("Arn", "")) if endpoint.source == "aws" else ""
    return settings.bucket(reply["Account"], clients.region()), identity


@contextmanager
def explain_connect_errors(settings: Settings, endpoint: Endpoint) -> Iterator[None]:
    """Convert errors of connecting into usage errors with a next step."""
    where = endpoint.url or "AWS"
    try:
        yield
    except NoRegionError as error:
        folder = state_folder(os.environ, Path.cwd())
        message = f"No AWS region is set, and {folder} has no embedded AWS."
        raise UsageError(message, code="config.region.missing") from error
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as error:
        message = f"No AWS credentials were found: {error}."
        raise UsageError(message, code="aws.credentials.missing") from error
    except ClientError as error:
        failure = classify(error, layer="tool")
        if failure.code == "aws.resource.not_found" or "NonExistent" in str(
            failure.provider_code
        ):
            message = (
                f"Nothing is deployed as {settings.app}-{settings.env} at {where}."
            )
            start = "piecework dev MODULE" if endpoint.by_dev else "piecework up"
            step = f"Run `{start}`, or set PIECEWORK_APP and PIECEWORK_ENV."
            raise UsageError(
                message, code="aws.resource.not_found", next_step=step
            ) from error
        message = f"{where} refused: {failure.provider_code}."
        if failure.code in TOLD:
            message = failure.message
        raise UsageError(message, code=failure.code) from error
    except (BotoCoreError, OSError) as error:
        known = unreadable(error) or tls_error(error, where, time.time())
        raise known or unreachable(endpoint) from error
    except Exception as error:
        # To import the type would load half of the SDK.
        if "ResponseParserError" not in type_names(error):
            raise
        message = f"The answer of {where} is not one of AWS: a proxy may have sent it."
        raise UnreachableError(message) from error


def unreadable(error: Exception) -> UsageError | None:
    """Return the error of credentials that cannot be read; None for other errors."""
    code = classify(error).code
    if code not in UNREADABLE:
        return None
    message = f"The AWS credentials cannot be read: {error}"
    step = "Follow the message, or sign in: `aws login`, `aws sso login`."
    return UsageError(message, code=code, next_step=step)


def unreachable(endpoint: Endpoint) -> UnreachableError:
    """Return the error of an endpoint that does not answer."""
    where = endpoint.url or "AWS"
    if endpoint.by_dev:
        message = f"`piecework dev` served {where}; it has ended, and its jobs with it."
        return UnreachableError(message, next_step="Start it: `piecework dev MODULE`.")
    return UnreachableError(f"{where} does not answer.")
