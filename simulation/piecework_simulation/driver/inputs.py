"""Load the input of a simulation: built-in pipelines, or the user's pipeline."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pydantic import BaseModel

from piecework.aws.objects import INLINE_LIMIT
from piecework.dependency import bare
from piecework.domain.identity import function_text
from piecework.domain.payload import read_payload
from piecework.errors import UsageError
from piecework.loading import load_pipeline, with_mapped
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.source import chunk_inputs
from piecework_simulation.driver.actions import Workload
from piecework_simulation.driver.batched_pipeline import surveying
from piecework_simulation.driver.fallback_pipeline import planning
from piecework_simulation.driver.limited_pipeline import metering
from piecework_simulation.driver.mapping_pipeline import BELOW, MAPPING
from piecework_simulation.driver.pipelines import Item, counting, milling, travel
from piecework_simulation.driver.shared_pipeline import sharing
from piecework_simulation.driver.simulated_pipeline import instrument_pipeline

#: Maximum chunks of a job drawn from a user's input, and maximum chunks read from it.
MAX_CHUNKS = 5
MAX_READ_CHUNKS = 200


@dataclass(frozen=True, slots=True)
class Inputs:
    """The command's inputs.

    Attributes:
        pipeline: `module:object`; empty for the built-in pipelines.
        source: The source of the chunks, as for a submit.
        stubs: `module:object`, a mapping from functions that the pipeline calls to
            their replacements; empty for no stubs.
    """

    pipeline: str = ""
    source: str = ""
    stubs: str = ""


def load_workloads(inputs: Inputs) -> Sequence[Workload]:
    """Return the workloads that the schedules submit.

    Raises:
        PieceworkError: Loading the pipeline or reading its input failed.
        UsageError: `cli.usage.invalid`: the stub mapping was not found, or has
            something other than functions; `pipeline.call.indistinct`: no call can be
            of one of its functions.
    """
    if not inputs.pipeline:
        return WORKLOADS
    pipeline = load_pipeline(inputs.pipeline)
    payloads = asyncio.run(read_payloads(pipeline, inputs.source))
    stubs = load_stubs(inputs.stubs) if inputs.stubs else {}

    def draw(rng: Random) -> Sequence[BaseModel]:
        return rng.choices(payloads, k=rng.randint(1, MAX_CHUNKS))

    also = with_mapped([pipeline])
    del also[pipeline.name]
    below = [instrument_pipeline(each) for each in also.values()]
    return [Workload(instrument_pipeline(pipeline), draw, stubs, also=below)]


async def read_payloads(pipeline: Pipeline, source: str) -> list[BaseModel]:
    """Read the first chunks of an input."""
    payloads: list[BaseModel] = []
    async for chunk in chunk_inputs(source, pipeline, s3=None):
        payloads.append(read_payload(pipeline.payload, chunk.payload))
        if len(payloads) == MAX_READ_CHUNKS:
            break
    return payloads


def load_stubs(name: str) -> Mapping[Callable[..., Any], Callable[..., Any]]:
    """Return the mapping from functions, without their declarations, to stubs."""
    module, _, attribute = name.partition(":")
    step = "Give --stubs module:MAPPING, from each function to its stub."
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"No stub mapping was found at {name}: {error}."
        raise UsageError(message, next_step=step) from error
    if not isinstance(found, Mapping):
        message = f"{name} is a {type(found).__name__}, not a mapping."
        raise UsageError(message, next_step=step)
    for function, stub in found.items():
        for each, role in ((function, "key"), (stub, "stub")):
            if not callable(each):
                message = f"{each!r} is a {role} of {name}, and not a function."
                raise UsageError(message, next_step=step)
        try:
            function_text(bare(function))
        except UsageError as error:
            message = f"{error.message} It is a key of {name}."
            raise UsageError(message, code=error.code, next_step=step) from error
    return {bare(function): stub for function, stub in found.items()}


# ── default workloads ─────────────────────────────────────────────────────────

#: Seconds of work on a chunk beside its calls; some exceed the lease.
SECONDS = (0.0, 0.0, 0.0, 0.0, 3.0, 24.0)


def draw_counting(rng: Random) -> list[Item]:
    """Draw a job of paid calls, in which some chunks fail."""
    errors = ("",) * 6 + ("analyse:permanent", "analyse:transient")
    return [
        Item(
            n=n,
            calls=rng.choice((0, 1, 3)),
            trouble=rng.choice(errors),
            seconds=rng.choice(SECONDS),
        )
        for n in range(rng.choice((1, 1, 2, 3, 5)))
    ]


def draw_travel(rng: Random) -> list[Item]:
    """Draw a job of sagas, some of which fail before, at or after their pivot."""
    stages = ("hotel", "pay", "write")
    errors = [""] * 8 + [f"{s}:{k}" for s in stages for k in ("permanent", "transient")]
    return [
        Item(n=n, trouble=rng.choice(errors), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((1, 2, 3)))
    ]


def draw_planning(rng: Random) -> list[Item]:
    """Draw a job whose stages use variants, and whose calls use fallbacks."""
    errors = ["", "", "draft:semantic", "draft:policy"]
    errors += ["lodge:permanent", "lodge:transient"]
    return [
        Item(n=n, trouble=rng.choice(errors), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((1, 2, 3)))
    ]


def draw_milling(rng: Random) -> list[Item]:
    """Draw a job whose dependencies have outages."""
    errors = ["", "", "", "gate:permanent", "gate:transient"]
    return [
        Item(n=n, calls=rng.choice((1, 2, 4)), trouble=rng.choice(errors))
        for n in range(rng.choice((1, 3, 6)))
    ]


def draw_metering(rng: Random) -> list[Item]:
    """Draw a job whose dependencies have limits; some need more than a minute."""
    errors = ["", "", "", "confirm:permanent", "confirm:transient"]
    return [
        Item(n=n, calls=rng.choice((1, 2, 6)), trouble=rng.choice(errors))
        for n in range(rng.choice((1, 2, 4)))
    ]


def draw_surveying(rng: Random) -> list[Item]:
    """Draw a job that asks a model in the batch lane."""
    stages = ("survey", "publish", "review")
    errors = [""] * 9 + [f"{s}:{k}" for s in stages for k in ("permanent", "transient")]
    return [
        Item(n=n, calls=rng.choice((1, 1, 2, 4)), trouble=rng.choice(errors))
        for n in range(rng.choice((1, 2, 3, 5)))
    ]


def draw_sharing(rng: Random) -> list[Item]:
    """Draw a job whose chunks make equal calls; some fail between two of them."""
    errors = ["", "", "", "step:permanent", "step:transient"]
    return [
        Item(n=n, trouble=rng.choice(errors), seconds=rng.choice(SECONDS))
        for n in range(rng.choice((2, 3, 6)))
    ]


#: The share of the schedules whose jobs ask for batches.
BATCHED_SHARE = 0.2
#: Bytes of a large value: more than a row holds.
LARGE = INLINE_LIMIT + 1_000


def enlarge(item: BaseModel) -> BaseModel:
    """Return an item whose values are large."""
    return item.model_copy(update={"size": LARGE})


#: The chunk of an ordered job that has no order key.
WITHOUT_KEY = 3
#: Chunks of one order key, one after another.
CHUNKS_PER_KEY = 5


def order_key(item: Item) -> int | None:
    """Return the order key of an item of an ordered job."""
    return None if item.n == WITHOUT_KEY else item.n // CHUNKS_PER_KEY


def workload(
    pipeline: Pipeline,
    payloads: Callable[[Random], Sequence[BaseModel]],
    enlarge: Callable[[BaseModel], BaseModel] | None = enlarge,
) -> Workload:
    """Return the workload of a built-in pipeline; some of its jobs are ordered."""
    watched = instrument_pipeline(pipeline)
    also = [*MAPPING.values(), *BELOW.values()]
    return Workload(watched, payloads, enlarge=enlarge, ordered_by=order_key, also=also)


WORKLOADS = (
    workload(counting, draw_counting),
    workload(travel, draw_travel),
    workload(planning, draw_planning),
    workload(milling, draw_milling),
    workload(metering, draw_metering, None),
    workload(sharing, draw_sharing, None),
    replace(
        workload(surveying, draw_surveying, None),
        share=BATCHED_SHARE,
        faults_s=1_500.0,
        end_s=14_400.0,
    ),
)
