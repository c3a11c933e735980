"""The same random sequence of requests to two subjects: they have to agree.

Run it for longer: python -m verification.conformance.sqs_sequences --seeds 500
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from verification.conformance.__main__ import started
from verification.conformance.models import Model
from verification.conformance.sqs_words import SHORTLY, send, take, with_dead_letters
from verification.conformance.subject import Subject
from verification.conformance.subjects import Server, clients

STEPS = 60
RECEIVES = 3
#: Fewer than a receive returns, so that a receive returns all visible messages.
MOST_MESSAGES = 9
LONG = 600
AT_ONCE = 16
COUNTS = ("", "NotVisible", "Delayed")
WEIGHTS = {
    "send": 6,
    "send late": 1,
    "receive": 6,
    "receive and show": 4,
    "receive and wait": 1,
    "show": 3,
    "hide": 2,
    "delete": 3,
    "count": 2,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sqs_sequences", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--against", choices=("ministack", "moto"), default="ministack")
    asked = parser.parse_args(arguments)
    with started(asked.against) as endpoint:
        given = asked.against, endpoint or "", range(asked.seeds), asked.steps
        found = asyncio.run(disagreements(*given))
    print("\n\n".join([*found, f"seeds={asked.seeds} disagreements={len(found)}"]))  # noqa: T201 -- this is a command
    return 1 if found else 0


async def disagreements(
    name: str, endpoint: str, seeds: Sequence[int], steps: int = STEPS
) -> list[str]:
    """Return where a server and the model part, for each seed where they do."""
    turn = asyncio.Semaphore(AT_ONCE)
    async with clients(name, endpoint) as opened:

        async def run(seed: int) -> str | None:
            async with turn:
                server = Server(name, *opened)
                return await Walk(Random(seed)).go(steps, Model(), server)

        found = await asyncio.gather(*map(run, seeds))
    return [f"seed {s}\n{text}" for s, text in zip(seeds, found, strict=True) if text]


@dataclass(slots=True)
class Side:
    """One of the two: its queues, and the newest handle of each message hidden."""

    subject: Subject
    queues: tuple[str, str]
    held: dict[str, tuple[str, str]] = field(default_factory=dict)
    deleted: int = 0

    async def receive(self, queue: int, hide_s: int) -> str:
        url, held = self.queues[queue], self.held
        found = await take(self.subject, url, VisibilityTimeout=hide_s)
        for message in found:
            held.pop(message["Body"], None)
            if hide_s == LONG:
                held[message["Body"]] = url, message["ReceiptHandle"]
        name = "ApproximateReceiveCount"
        texts = [f"{m['Body']} ({m['Attributes'][name]})" for m in found]
        return " ".join(sorted(texts)) or "nothing"

    async def change(self, body: str, seconds: int) -> str:
        url, handle = self.held[body]
        entry = {"Id": "0", "ReceiptHandle": handle, "VisibilityTimeout": seconds}
        change = self.subject.sqs.change_message_visibility_batch
        return done(await change(QueueUrl=url, Entries=[entry]))

    async def delete(self, body: str) -> str:
        url, handle = self.held.pop(body)
        self.deleted += 1
        entry = {"Id": "0", "ReceiptHandle": handle}
        delete = self.subject.sqs.delete_message_batch
        return done(await delete(QueueUrl=url, Entries=[entry]))

    async def count(self) -> str:
        names = [f"ApproximateNumberOfMessages{which}" for which in COUNTS]
        counts = []
        for url in self.queues:
            ask = self.subject.sqs.get_queue_attributes
            reply = await ask(QueueUrl=url, AttributeNames=names)
            counts += [reply["Attributes"][name] for name in names]
        return " ".join(counts)


@dataclass(slots=True)
class Walk:
    """A random sequence of steps, with their answers."""

    rng: Random
    said: list[str] = field(default_factory=list)
    sent: int = 0

    async def go(self, steps: int, *subjects: Subject) -> str | None:
        """Return the steps up to the first difference."""
        sides = [
            Side(subject, await with_dead_letters(subject, RECEIVES))
            for subject in subjects
        ]
        for _ in range(steps):
            verb, what = self._draw(sides[0])
            answers = [await do(side, verb, what) for side in sides]
            self.said.append(f"{verb} {what}: {' | '.join(answers)}")
            if len(set(answers)) > 1:
                return "\n".join(self.said)
        return None

    def _draw(self, side: Side) -> tuple[str, str]:
        """Choose a step that makes sense, and the message or the queue for it."""
        [verb] = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        if verb.startswith("send"):
            if self.sent - side.deleted >= MOST_MESSAGES:
                return "count", ""
            self.sent += 1
            return verb, str(self.sent)
        if verb in {"show", "hide", "delete"}:
            if not side.held:
                return "count", ""
            return verb, self.rng.choice(sorted(side.held))
        return verb, "dead" if self.rng.random() < 0.2 else "work"


async def do(side: Side, verb: str, what: str) -> str:
    """Run a step on one side; return its answer."""
    queue, answer = 1 if what == "dead" else 0, ""
    match verb:
        case "send":
            await send(side.subject, side.queues[0], what)
        case "send late":
            await send(side.subject, side.queues[0], what, DelaySeconds=LONG)
        case "receive":
            answer = await side.receive(queue, LONG)
        case "receive and show":
            answer = await side.receive(queue, 0)
        case "receive and wait":
            answer = await side.receive(queue, 1)
            await side.subject.pass_time(SHORTLY)
        case "show":
            answer = await side.change(what, 0)
            del side.held[what]
        case "hide":
            answer = await side.change(what, LONG * 2)
        case "delete":
            answer = await side.delete(what)
        case "count":
            answer = await side.count()
    return answer


def done(reply: Any) -> str:
    """Return the outcome of a batch of one."""
    failed = [entry["Code"] for entry in reply.get("Failed", [])]
    return " ".join(failed) or "done"


if __name__ == "__main__":
    raise SystemExit(main())
