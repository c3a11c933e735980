"""Kill the process that sends events, again and again, and count what the receiver got.

The events are pauses, stuck jobs, open breakers, and the ends of these states. The
killed process also decides when a state has lasted long enough. Half of the kills come
after the receiver has stored an event and before it answers. Then the event must come
again, and the receiver must know it. `make webhooks` prints the figures.
`ARGS="--kills 4"` is a short run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time

from piecework.client import Client
from piecework.domain.refs import JobRef
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.breakers import Breakers
from piecework_examples.quickstart import Paragraph, word_count
from piecework_examples.webhook_receiver.receiver import Inbox, verify
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.webhooks import (
    Subscription,
    set_webhook,
    show_webhook,
)
from verification.soak.site import own_aws

JOB = "drill"
#: Processes that send at a time: a killed one leaves its claims to the others.
PROCESSES = 2
EVENTS_PER_KILL = 2
#: Seconds after which a state is told, and kills for which each state lasts.
AFTER_S, LASTS = 1, 4
#: Seconds for the last deliveries, after the last kill.
PATIENCE_S = 120.0
SHORT = {"PIECEWORK_RECONCILE_S": "0.2", "PIECEWORK_WEBHOOK_TIMEOUT_S": "0.5"}


class Receiver:
    """The receiver of the examples, which says when it has stored an event."""

    def __init__(self, secret: str, path: Path) -> None:
        self.inbox = Inbox.open(path)
        self.stored = threading.Event()
        self.kill_is_due = False
        self.requests: Counter[str] = Counter()
        lock, receiver = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): text for name, text in self.headers.items()}
                event = verify(secret, headers, body, time())
                with lock:
                    receiver.requests[event] += 1
                    receiver.inbox.accept(event, body)
                if receiver.kill_is_due:
                    receiver.stored.set()
                    threading.Event().wait(0.3)  # the killer comes before the answer
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write no access log."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Ignore a killed sender."""

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


async def start() -> asyncio.subprocess.Process:
    """Start a process that reconciles, and sends events."""
    words = (sys.executable, "-m", "piecework_orchestrator", "reconcile", "--loop")
    return await asyncio.create_subprocess_exec(*words)


async def drill(kills: int, seed: int, folder: Path) -> dict[str, int]:
    """Write events, kill their senders, and return the figures."""
    rng, secret = random.Random(seed), secrets.token_urlsafe(32)
    os.environ["PIECEWORK_WEBHOOK_SECRET"] = secret
    receiver = Receiver(secret, folder / "events.db")
    url = f"http://127.0.0.1:{receiver.server.server_port}/"
    expected: set[tuple[str, str]] = set()
    ref = JobRef("default", JOB)
    senders: list[asyncio.subprocess.Process] = []
    async with connect(load_settings()) as rt, Client(runtime=rt) as client:
        hook = Subscription(
            "drill",
            url,
            "env:PIECEWORK_WEBHOOK_SECRET",
            events=["job.paused", "job.stuck", "breaker.open"],
            after_s=AFTER_S,
        )
        states = States(client, expected)
        await set_webhook(rt, hook, "drill")
        await client.submit(word_count, [Paragraph(text="one two")], id=JOB)
        try:
            for kill in range(kills):
                while len(senders) < PROCESSES:
                    senders.append(await start())
                receiver.kill_is_due = kill % 2 == 0
                receiver.stored.clear()
                for each in range(EVENTS_PER_KILL):
                    reason = f"pause {kill} {each}"
                    expected.add(("job.paused", reason))
                    await pause(rt, ref, actor="drill", reason=reason)
                    await resume(rt, ref, actor="drill", reason="go on")
                await states.begin(kill)
                await states.end(kill - LASTS, named(receiver.inbox))
                if receiver.kill_is_due:
                    await asyncio.to_thread(receiver.stored.wait, PATIENCE_S)
                else:
                    await asyncio.sleep(rng.uniform(0.0, 2.0))
                for victim in senders if receiver.kill_is_due else senders[:1]:
                    victim.kill()
                    await victim.wait()
                senders = [each for each in senders if each.returncode is None]
                receiver.kill_is_due = False
            senders.append(await start())
            for last in range(kills):
                for _ in range(int(PATIENCE_S * 4)):
                    if states.is_told(last, named(receiver.inbox)):
                        break
                    await asyncio.sleep(0.25)
                await states.end(last, named(receiver.inbox))
            await settled(rt, receiver.inbox, expected)
            deliveries = (await show_webhook(rt, "drill"))["deliveries"]
        finally:
            for sender in senders:
                sender.kill()
                await sender.wait()
            receiver.server.shutdown()
    accepted = named(receiver.inbox)
    return {
        "kills": kills,
        "events": len(expected),
        "requests": receiver.requests.total(),
        "repeated": receiver.requests.total() - len(receiver.requests),
        "lost": len(expected - accepted.keys()),
        "unexpected": len(accepted.keys() - expected),
        "not_recognised": accepted.total() - len(accepted),
        "undelivered": sum(row["state"] != "DELIVERED" for row in deliveries),
    }


@dataclass
class States:
    """The states that last in the drill: no worker runs, and breakers are open."""

    client: Client
    expected: set[tuple[str, str]]
    ended: set[int] = field(default_factory=set)

    @property
    def breakers(self) -> Breakers:
        """The breakers, as a worker of the drill writes them."""
        rt = self.client.runtime
        return Breakers(rt.table, "drill", rt.clock)

    async def begin(self, number: int) -> None:
        """Submit a job that no worker runs, and open a breaker."""
        rows = [Paragraph(text="one two")]
        await self.client.submit(word_count, rows, id=f"stuck-{number}")
        until = self.client.runtime.clock() + PATIENCE_S * 4
        await self.breakers.open(f"bank-{number}", 0, until, "tool.http.503")
        self.expected |= set(names_of(number))

    def is_told(self, number: int, accepted: Counter[tuple[str, str]]) -> bool:
        """Return whether the receiver knows of both states."""
        return all(name in accepted for name in names_of(number))

    async def end(self, number: int, accepted: Counter[tuple[str, str]]) -> None:
        """End both states, once and if the receiver knows of them."""
        if number in self.ended or not self.is_told(number, accepted):
            return
        self.ended.add(number)
        ref, name = JobRef("default", f"stuck-{number}"), f"bank-{number}"
        await cancel(self.client.runtime, ref, actor="drill", reason="it is told")
        until = self.client.runtime.clock() + PATIENCE_S
        await self.breakers.take_probe(name, 1, "probe", until)
        await self.breakers.close(name, 1, "probe")
        self.expected |= {(f"{kind}.over", what) for kind, what in names_of(number)}


def names_of(number: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return kind and subject of the events of the two states of a number."""
    return ("job.stuck", f"stuck-{number}"), ("breaker.open", f"bank-{number}")


def named(inbox: Inbox) -> Counter[tuple[str, str]]:
    """Return how often the receiver accepted each event, by kind and subject.

    A paused job is not counted: it is stuck at times, because no worker runs.
    """
    return Counter(
        (body["type"], name)
        for body in inbox.bodies()
        for key in [{"job.paused": "reason"}.get(body["type"], "dependency")]
        if (name := body["data"].get(key) or body["job"]) != JOB
    )


async def settled(rt: Runtime, inbox: Inbox, expected: set[tuple[str, str]]) -> None:
    """Wait until each event is delivered, or the patience ends."""
    for _ in range(int(PATIENCE_S * 4)):
        rows = (await show_webhook(rt, "drill"))["deliveries"]
        waiting = any(row["state"] != "DELIVERED" for row in rows)
        if not waiting and expected <= named(inbox).keys():
            return
        await asyncio.sleep(0.25)


def main() -> None:
    """Run the drill on an AWS of its own; end with 1 if an event was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with own_aws(**SHORT) as folder:
        figures = asyncio.run(drill(args.kills, args.seed, folder))
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in figures.items()) + "\n")
    wrong = ("lost", "unexpected", "not_recognised", "undelivered")
    sys.exit(any(figures[name] for name in wrong))


if __name__ == "__main__":
    main()
