"""Give a simulated process the runtime of the real code, on the simulated network."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from piecework.aws.endpoint import Endpoint, ServiceClock
from piecework.aws.objects import Objects
from piecework.aws.queue import Queue
from piecework.aws.work_queues import WorkQueues
from piecework.runtime import Runtime
from piecework.store.completion import Tallies
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs
from piecework.store.table import Table
from piecework_simulation.engine.network import open_client
from piecework_simulation.engine.process import Process
from piecework_simulation.engine.world import BUCKET, World


def open_runtime(world: World, process: Process, **changed: Any) -> Runtime:
    """Return the runtime of a process; `changed`: its settings that differ."""
    settings = replace(world.settings, **changed) if changed else world.settings
    rng = Random(world.rng.getrandbits(64))
    clock = ServiceClock(lambda: world.now() + process.offset)
    beat_s = max(1.0, settings.lease_s / 3)

    def table(name: str, timeout_s: float = 10.0) -> Table:
        client = open_client(world, "dynamodb", world.dynamodb, process, timeout_s)
        return Table(client, name, rng, clock=clock)

    def queue(name: str, timeout_s: float = 10.0) -> Queue:
        client = open_client(world, "sqs", world.sqs, process, timeout_s)
        return Queue(client, world.urls[name], rng)

    def queues(timeout_s: float = 10.0) -> WorkQueues:
        default = queue(settings.work_queue, timeout_s)
        return WorkQueues(default, settings.queue_name)

    checkpoints = table(settings.checkpoints_table)
    return Runtime(
        settings=settings,
        endpoint=Endpoint("", "aws", "nowhere"),
        table=checkpoints,
        dead_letters=table(settings.dead_letters_table),
        work=queues(),
        dead_letter_queue=queue(settings.dead_letter_queue),
        renewal_table=table(settings.checkpoints_table, beat_s),
        renewal_queues=queues(beat_s),
        objects=Objects(open_client(world, "s3", world.s3, process), BUCKET),
        jobs=Jobs(checkpoints, clock),
        transitions=JobTransitions(checkpoints, clock, settings.job_retention_days),
        tallies=Tallies(checkpoints),
        clock=clock,
        rng=rng,
    )
