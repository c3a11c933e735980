"""Hold one simulated world: a clock, a model of AWS, and processes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any

from piecework.domain.moments import iso
from piecework.settings import Settings
from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws.expiry import Expiry
from piecework_simulation.aws.s3 import S3
from piecework_simulation.aws.sqs import SQS
from piecework_simulation.aws.throughput import HOT, Throughput
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.loop import Loop
from piecework_simulation.engine.polls import LongPolls
from piecework_simulation.engine.process import Process, context_of

#: The Unix time at which the simulated clock is 0.
EPOCH = 1_790_000_000.0
BUCKET = "bucket"
#: The work queue's backstop, as `infra/data.yaml` sets it.
MAX_RECEIVES = 10
#: The queues of the deployment, as pipelines name them.
QUEUES = ("", "slow")
#: Maximum seconds that a transaction holds its items; a third of it on average. AWS
#: answers most within some hundredths of a second.
TRANSACTION_S = 0.2
#: The share of a partition's limits that a schedule with throttling may have: small
#: jobs reach a fiftieth. With less, idle polls alone would use all of it.
SHARES = (1.0, 0.05, 0.02)
#: Maximum seconds that a process is frozen: five leases.
MAX_FREEZE_S = 100.0


@dataclass(slots=True)
class World:
    """The environment of one schedule."""

    settings: Settings
    faults: Faults
    rng: Random
    traced: bool = False
    loop: Loop = field(init=False)
    context: Context = field(init=False)
    dynamodb: DynamoDB = field(init=False)
    sqs: SQS = field(init=False)
    s3: S3 = field(init=False)
    polls: LongPolls = field(init=False)
    urls: dict[str, str] = field(init=False)
    #: The process whose request the models are executing, if any.
    sender: Process | None = None
    #: The time at which that request was sent; it may have been in transit for long.
    sent_at: float = 0.0
    #: All processes, ended or running.
    processes: list[Process] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    requests: int = 0
    #: Called when a request is about to be sent, was executed, and was answered:
    #: "asked", "applied", "answered"; with the `Exchange` of the network.
    on_exchange: Callable[[str, Any], None] = lambda *_: None

    def __post_init__(self) -> None:
        """Make the loop and the services."""
        settings = self.settings
        self.loop = Loop(self.rng)  # type: ignore[abstract] # sockets are
        self.loop.on_fuse_end = self.inject_process_fault
        self.context = context_of(self.loop.world)
        tables = (settings.checkpoints_table, settings.dead_letters_table)
        self.dynamodb = DynamoDB(
            self.now,
            tables=tables,
            chaos=self.faults,
            rng=self.rng,
            page_items=7,
            conflicts=Conflicts(self.now, self.rng, TRANSACTION_S),
            expiry=Expiry(),
        )
        if HOT in self.faults.rates:
            share = self.rng.choice(SHARES)
            self.dynamodb.throughput = Throughput(
                self.now, self.rng, share, chaos=self.faults
            )
        self.sqs = SQS(self.now, self.rng, chaos=self.faults)
        self.s3 = S3(self.now, buckets=[BUCKET])
        self.polls = LongPolls(self.loop, self.sqs, self.context, EPOCH)
        self.sqs.on_arrival = self.polls.retry_first
        dead = settings.dead_letter_queue
        self.urls = {dead: self.sqs.create_queue(dead, retention_s=1_209_600.0)}
        for queue in QUEUES:
            name = settings.queue_name(queue)
            self.urls[name] = self.sqs.create_queue(
                name,
                visibility_s=settings.visibility_s,
                retention_s=345_600.0,
                redrive=(dead, MAX_RECEIVES),
            )

    def now(self) -> float:
        """Return the true time, in seconds since 1970."""
        return EPOCH + self.loop.moment

    def work_queue_of(self, url: str) -> str | None:
        """Return the queue of an address, as pipelines name it; None: another one."""
        names = {self.urls[self.settings.queue_name(name)]: name for name in QUEUES}
        return names.get(url)

    def at(self, moment: float) -> float:
        """Convert a true time to the loop's time."""
        return moment - EPOCH

    # ── processes ───────────────────────────────────────────────────────────

    def process(self, name: str, *, mortal: bool = True) -> Process:
        """Return a new process; a mortal one has a fuse while faults are on."""
        process = Process(name)
        if mortal and self.faults.on:
            if self.faults.fires("clock.offset"):
                process.offset = self.rng.uniform(-30.0, 30.0)
            self.set_fuse(process)
        self.processes.append(process)
        return process

    def set_fuse(self, process: Process) -> None:
        """Draw the number of callbacks until the process's next fault."""
        rates = self.faults.rates
        rate = rates.get("process.kill", 0.0) + rates.get("process.freeze", 0.0)
        process.fuse = 1 + int(self.rng.expovariate(rate)) if rate else 0

    def inject_process_fault(self, process: Process) -> None:
        """Kill or freeze a process whose fuse has reached zero."""
        if not self.faults.on:
            return
        rates = self.faults.rates
        kill, freeze = rates.get("process.kill", 0.0), rates.get("process.freeze", 0.0)
        if self.rng.random() * (kill + freeze) < kill:
            self.faults.fired["process.kill"] += 1
            self.kill(process)
            return
        self.faults.fired["process.freeze"] += 1
        seconds = self.rng.random() ** 3 * MAX_FREEZE_S
        self.note(process, f"frozen for {seconds:.3f} s", None)
        self.loop.freeze(process, seconds)
        self.set_fuse(process)

    def kill(self, process: Process) -> None:
        """End a process at once."""
        if not process.dead:
            self.note(process, "killed", None)
            self.loop.kill(process)
            self.loop.call_soon(process.on_death, context=self.context)

    def start(self, process: Process, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in a process; return its task."""
        return self.loop.create_task(work, context=context_of(process))

    def provider_context(self) -> Context:
        """Return the caller's context variables, outside of its process."""
        return context_of(self.loop.world)

    # ── the trace ───────────────────────────────────────────────────────────

    def note(self, process: Process | None, what: str, fault: str | None) -> None:
        """Write a line of the trace."""
        self.requests += 1
        if self.traced:
            name = process.name if process else "-"
            also = f"  !{fault}" if fault else ""
            self.trace.append(f"{iso(self.now())[11:]} {name:<12} {what}{also}")
