"""A model behind Amazon Bedrock's Converse, through aiobotocore.

The endpoint is never named here: AWS_ENDPOINT_URL_BEDROCK_RUNTIME decides, else AWS.
botocore makes one attempt. The dependency makes the retries: it counts and jitters
them, and keeps them within the budget.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError

from piecework import PermanentError
from piecework.aws import session
from piecework.llm import ModelAnswer, ModelRequest, bedrock_converse
from piecework_examples.contract_review.config import (
    LARGE_MODEL,
    SMALL_MODEL,
    from_environment,
)
from piecework_examples.contract_review.resources import PerLoop

if TYPE_CHECKING:
    from types_aiobotocore_bedrock_runtime import BedrockRuntimeClient

CONNECTIONS: Final = 64
#: Characters a model reads. Bedrock answers a prompt that is too long with the same
#: ValidationException as any other fault. Our own count tells the two apart without the
#: message.
CONTEXT_WINDOWS: Final = {SMALL_MODEL: 4_000, LARGE_MODEL: 100_000}
DEFAULT_WINDOW: Final = 600_000  # 200,000 tokens of at least three characters


@asynccontextmanager
async def open_client() -> AsyncIterator[BedrockRuntimeClient]:
    """Open one client with its pool of connections; leaving closes both."""
    timeout_s = from_environment().timeout_s
    config = AioConfig(
        connect_timeout=min(timeout_s, 5.0),
        read_timeout=timeout_s,
        max_pool_connections=CONNECTIONS,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    async with session().client("bedrock-runtime", config=config) as client:
        yield client


clients: PerLoop[BedrockRuntimeClient] = PerLoop(open_client)
converse = bedrock_converse(clients.get)


async def caller(request: ModelRequest) -> ModelAnswer:
    """Send a request to Converse.

    Raises:
        ClientError: Bedrock refused; throttling carries its Retry-After.
        PermanentError: `llm.context.overflow`, too long for the model.
    """
    try:
        return await converse(request)
    except ClientError as error:
        if _is_validation(error) and _is_too_long(request):
            raise _overflow(request.model) from error
        raise


def _is_too_long(request: ModelRequest) -> bool:
    window = CONTEXT_WINDOWS.get(request.model, DEFAULT_WINDOW)
    texts = (request.system, *(turn.text for turn in request.turns))
    return sum(map(len, texts)) > window


def _is_validation(error: ClientError) -> bool:
    return bool(error.response.get("Error", {}).get("Code") == "ValidationException")


def _overflow(model_id: str) -> PermanentError:
    return PermanentError(
        f"The clause is longer than {model_id} can read.",
        code="llm.context.overflow",
        next_step="Set REVIEW_MODEL_ID to a model with a larger context, start the "
        "workers again, and redrive the chunk.",
    )
