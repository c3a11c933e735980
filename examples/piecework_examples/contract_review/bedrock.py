"""A model behind Amazon Bedrock's Converse, through aioboto3.

The endpoint is never named here: AWS_ENDPOINT_URL_BEDROCK_RUNTIME decides, else AWS.
botocore makes one attempt; the retries are the dependency's own, where they are
counted, jittered and kept within the budget.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiobotocore.config import AioConfig
from botocore.exceptions import ClientError

from piecework import PermanentError, PolicyError, TransientError
from piecework.aws import session
from piecework_examples.contract_review.config import LARGE_MODEL, SMALL_MODEL

if TYPE_CHECKING:
    from types_aiobotocore_bedrock_runtime import BedrockRuntimeClient

CONNECTIONS: Final = 64
MAX_TOKENS: Final = 2_000
#: Characters a model reads. Bedrock answers a prompt that is too long with the same
#: ValidationException as any other fault; our own count tells the two apart without
#: reading the message.
CONTEXT_WINDOWS: Final = {SMALL_MODEL: 4_000, LARGE_MODEL: 100_000}
DEFAULT_WINDOW: Final = 600_000  # 200,000 tokens of at least three characters

_REFUSALS: Final = {
    "content_filtered": "llm.policy.content_filtered",
    "guardrail_intervened": "llm.policy.content_filtered",
    "refusal": "llm.policy.refusal",
}
_OVERFLOWS: Final = frozenset({"model_context_window_exceeded", "max_tokens"})


@asynccontextmanager
async def open_bedrock(model_id: str, timeout_s: float) -> AsyncIterator[BedrockModel]:
    """Open one client with its pool of connections; leaving closes both."""
    config = AioConfig(
        connect_timeout=min(timeout_s, 5.0),
        read_timeout=timeout_s,
        max_pool_connections=CONNECTIONS,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    async with session().client("bedrock-runtime", config=config) as client:
        yield BedrockModel(client, model_id)


@dataclass(frozen=True, slots=True)
class BedrockModel:
    """One model id on one client."""

    client: BedrockRuntimeClient
    model_id: str

    async def converse(self, system: str, prompt: str, *, idempotency_key: str) -> str:
        """Return the answer's text.

        Raises:
            ClientError: Bedrock said no; throttling carries its Retry-After.
            PermanentError: `llm.context.overflow`, too long for the model.
            PolicyError: A guardrail or the model itself refused.
            TransientError: `llm.http.malformed_body`, the answer came in pieces.
        """
        try:
            response = await self.client.converse(
                modelId=self.model_id,
                system=[{"text": system}],
                messages=[{"role": "user", "content": [{"text": prompt}]}],
                inferenceConfig={"maxTokens": MAX_TOKENS, "temperature": 0.0},
                # Converse knows no idempotency key; so it stands in the invocation log.
                requestMetadata={"idempotency-key": idempotency_key[:256]},
            )
        except ClientError as error:
            if _is_validation(error) and self._is_too_long(system, prompt):
                raise _overflow(self.model_id) from error
            raise
        return _text(dict(response), self.model_id)

    def _is_too_long(self, system: str, prompt: str) -> bool:
        window = CONTEXT_WINDOWS.get(self.model_id, DEFAULT_WINDOW)
        return len(system) + len(prompt) > window


def _text(response: dict[str, Any], model_id: str) -> str:
    """Return what the model said, if it was let to finish."""
    reason = response.get("stopReason", "")
    if reason in _OVERFLOWS:
        raise _overflow(model_id)
    if reason in _REFUSALS:
        raise PolicyError(f"The model stopped: {reason}.", code=_REFUSALS[reason])
    try:
        parts = response["output"]["message"]["content"]
        return "".join(part["text"] for part in parts if "text" in part)
    except (KeyError, TypeError) as error:
        # botocore hands on a 200 whose body it could not parse without its members.
        raise TransientError(
            "Bedrock's answer has no message.", code="llm.http.malformed_body"
        ) from error


def _is_validation(error: ClientError) -> bool:
    return bool(error.response.get("Error", {}).get("Code") == "ValidationException")


def _overflow(model_id: str) -> PermanentError:
    return PermanentError(
        f"The clause is longer than {model_id} can read or answer.",
        code="llm.context.overflow",
        next_step="Set REVIEW_MODEL_ID to a model with a larger context, start the "
        "workers again, and redrive the chunk.",
    )
