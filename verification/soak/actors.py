"""The parts of a soak: the fleet, submits, disruptions, and the record of changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from piecework.settings import Settings, load_settings
from piecework_orchestrator.demo.processes import isolated_environ
from piecework_orchestrator.embedded.deploy import make_client
from verification.soak.changes import Changes, open_stream
from verification.soak.fleet import Fleet
from verification.soak.killer import Killer
from verification.soak.plan import Plan
from verification.soak.site import CHANGES, TABLE, Site
from verification.soak.traffic import Traffic

COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")


@dataclass(frozen=True, slots=True)
class Actors:
    """All of them, on their site."""

    site: Site
    settings: Settings
    changes: Changes
    fleet: Fleet
    traffic: Traffic
    killer: Killer

    def note_disruptions(self) -> None:
        """Write down what was done, and whom it hit."""
        lines: list[dict[str, Any]] = [
            {"at": at, "disruption": name} for name, at in self.killer.done
        ]
        lines += [{"at": d.at, "killed": d.worker} for d in self.fleet.deaths]
        lines.sort(key=lambda line: float(line["at"]))
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (self.site.folder / "disruptions.jsonl").write_text(text)

    def left_in_dead_letter_queue(self) -> int:
        """Return how many dead-lettered messages no reconciler has handled."""
        sqs = make_client("sqs", self.site.emulator)
        url = queue_url(self.site, self.settings.dead_letter_queue)
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(COUNTS))
        return sum(int(found["Attributes"][name]) for name in COUNTS)


def gather(plan: Plan, site: Site) -> Actors:
    """Create the actors; none has started."""
    with isolated_environ(site.calm):
        settings = load_settings()
    changes = open_stream(site.emulator, TABLE, site.folder / CHANGES)
    fleet = Fleet(site, plan.workers)
    # So few chunks are open at once that no queue hides a slow takeover.
    window = plan.workers * settings.max_chunks * 3 // 2
    traffic = Traffic(site, plan, changes, window)
    queue = queue_url(site, settings.work_queue)
    killer = Killer(plan, fleet, changes, traffic, queue, plan.rng("killer"))
    traffic.share_done = killer.share
    return Actors(site, settings, changes, fleet, traffic, killer)


def queue_url(site: Site, name: str) -> str:
    """Return a queue's address, past the faults."""
    reply = make_client("sqs", site.emulator).get_queue_url(QueueName=name)
    return str(reply["QueueUrl"])
