"""An agent of pydantic-ai: it searches, books, and says what it has booked."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from piecework import pipeline
from piecework.integrations.pydantic_ai import idempotency_key, remembered
from verification.frameworks.paid import pay
from verification.frameworks.trip import AIRLINE, Trip, main


async def think(messages: list[Any], info: Any) -> ModelResponse:
    """Be a model: search first, then book, then answer."""
    number = len(messages) // 2 + 1
    await pay(f"request {number}")
    if number == 1:
        return ModelResponse(parts=[ToolCallPart("search", {"to": "Rome"})])
    found = messages[-1].parts[0].content
    if number == 2:
        return ModelResponse(parts=[ToolCallPart("book", {"flight": found})])
    return ModelResponse(parts=[TextPart(f"booked {found}")])


async def search(to: str) -> str:
    """Return a flight."""
    await pay("search")
    return f"LH1 to {to}"


async def book(flight: str) -> str:
    """Book a flight."""
    await pay("book", idempotency_key())
    return f"{flight} in 12A"


agent = remembered(
    Agent(FunctionModel(think), tools=[search, book]), tools={"book": AIRLINE}
)


@pipeline
async def travel(trip: Trip) -> str:
    """Run the agent."""
    return str((await agent.run(f"Go to {trip.to}")).output)


if __name__ == "__main__":
    from verification.frameworks import pydantic_ai_agent  # a child process imports it

    main(pydantic_ai_agent.travel)
