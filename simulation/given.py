"""Load the input of a simulation: built-in pipelines, or the user's pipeline."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import BaseModel

from orchestrator.intake import chunk_inputs
from piecework.errors import UsageError
from piecework.loading import load_pipeline
from piecework.pipeline import Pipeline
from simulation.acts import Workload
from simulation.watched import instrument_pipeline

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
        UsageError: `cli.usage.invalid`: the stub mapping was not found.
    """
    if not inputs.pipeline:
        from simulation.works import WORKLOADS

        return WORKLOADS
    pipeline = load_pipeline(inputs.pipeline)
    payloads = asyncio.run(read_payloads(pipeline, inputs.source))
    stubs = load_stubs(inputs.stubs) if inputs.stubs else {}

    def draw(rng: Random) -> Sequence[BaseModel]:
        return rng.choices(payloads, k=rng.randint(1, MAX_CHUNKS))

    return [Workload(instrument_pipeline(pipeline), draw, stubs)]


async def read_payloads(pipeline: Pipeline, source: str) -> list[BaseModel]:
    """Read the first chunks of an input."""
    payloads: list[BaseModel] = []
    async for chunk in chunk_inputs(source, pipeline, s3=None):
        payloads.append(pipeline.payload.model_validate_json(chunk.payload))
        if len(payloads) == MAX_READ_CHUNKS:
            break
    return payloads


def load_stubs(name: str) -> Mapping[Callable[..., Any], Callable[..., Any]]:
    """Return the mapping from functions to stubs."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"No stub mapping was found at {name}: {error}."
        step = "Give --stubs module:MAPPING, from each function to its stub."
        raise UsageError(message, next_step=step) from error
    return dict(found)
