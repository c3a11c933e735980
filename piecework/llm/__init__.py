"""Ask a model: typed answers, remembered and retried in a chunk, with their price.

mini = Model("gpt-5-mini", openai_chat(client), price=Price(input=0.25, output=2.0))
invoice = await mini.ask(SYSTEM, document.text, returns=Invoice)
"""

from __future__ import annotations

from piecework.llm.adapters import (
    anthropic_messages,
    bedrock_converse,
    gemini_content,
    openai_chat,
)
from piecework.llm.batches.bedrock_batches import BedrockBatches
from piecework.llm.model import Model
from piecework.llm.prices import ListPrice, Price, list_price
from piecework.llm.request import ModelAnswer, ModelCaller, ModelRequest, Turn
from piecework.resilience.lanes import Lane

__all__ = [
    "BedrockBatches",
    "Lane",
    "ListPrice",
    "Model",
    "ModelAnswer",
    "ModelCaller",
    "ModelRequest",
    "Price",
    "Turn",
    "anthropic_messages",
    "bedrock_converse",
    "gemini_content",
    "list_price",
    "openai_chat",
]
