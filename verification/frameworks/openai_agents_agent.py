"""An agent of openai-agents: it searches, books, and says what it has booked."""

from __future__ import annotations

import json
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from piecework import pipeline
from piecework.integrations.openai_agents import idempotency_key, remembered
from verification.frameworks.paid import pay
from verification.frameworks.trip import AIRLINE, Trip, main

set_tracing_disabled(disabled=True)


class Thinking(Model):
    """Be a model: search first, then book, then answer."""

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 -- the framework's name
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        """Answer by the outputs of tools so far."""
        outputs = [each["output"] for each in input if "output" in each]
        number = len(outputs) + 1
        await pay(f"request {number}")
        wanted = [("search", {"to": "Rome"}), ("book", {"flight": outputs[:1]})]
        if number <= len(wanted):
            name, given = wanted[number - 1]
            item: Any = ResponseFunctionToolCall(
                arguments=json.dumps({key: "".join(v) for key, v in given.items()}),
                call_id=f"call-{number}",
                name=name,
                type="function_call",
            )
        else:
            said = ResponseOutputText(
                text=f"booked {outputs[1]}", type="output_text", annotations=[]
            )
            item = ResponseOutputMessage(
                id="message",
                content=[said],
                role="assistant",
                status="completed",
                type="message",
            )
        usage = Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
        return ModelResponse(output=[item], usage=usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Stream nothing."""
        raise NotImplementedError


@function_tool
async def search(to: str) -> str:
    """Return a flight."""
    await pay("search")
    return f"LH1 to {to}"


@function_tool
async def book(flight: str) -> str:
    """Book a flight."""
    await pay("book", idempotency_key())
    return f"{flight} in 12A"


agent = remembered(
    Agent("traveller", model=Thinking(), tools=[search, book]), tools={"book": AIRLINE}
)


@pipeline
async def travel(trip: Trip) -> str:
    """Run the agent."""
    return str((await Runner.run(agent, f"Go to {trip.to}")).final_output)


if __name__ == "__main__":
    from verification.frameworks import openai_agents_agent  # a child imports it

    main(openai_agents_agent.travel)
