"""A model, as the stages see one: a system text and a prompt in, a text out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from piecework_examples.contract_review.config import from_environment
from piecework_examples.contract_review.resources import PerLoop
from piecework_examples.contract_review.rules_model import RulesModel


class Model(Protocol):
    """Anything that answers a prompt."""

    async def converse(self, system: str, prompt: str, *, idempotency_key: str) -> str:
        """Return the answer; what goes wrong is raised as it is, to be classified."""


@asynccontextmanager
async def configured_model() -> AsyncIterator[Model]:
    """Open the model that the environment names."""
    config = from_environment()
    if config.model == "rules":
        yield RulesModel()
        return
    # aioboto3 takes a second to import: only who uses it waits for it.
    from piecework_examples.contract_review.bedrock import open_bedrock

    async with open_bedrock(config.model_id, config.timeout_s) as model:
        yield model


current: PerLoop[Model] = PerLoop(configured_model)
