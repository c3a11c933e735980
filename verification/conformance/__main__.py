"""Put every probe to every subject; print where one differs from AWS."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded.deploy import make_client
from tests.own_emulator import own_emulator
from verification.conformance import moto_server
from verification.conformance.dynamodb_machine import compare
from verification.conformance.probe import (
    KNOWN,
    PROBES,
    differences,
    load_probes,
    surprises,
)
from verification.conformance.subjects import ENDPOINT, REGION, SUBJECTS, ask_all

ANSWER_WIDTH = 60


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="verification.conformance", description=__doc__
    )
    parser.add_argument("--only", choices=SUBJECTS, action="append", default=[])
    parser.add_argument("--service", default="", help="dynamodb, sqs or s3")
    parser.add_argument(
        "--examples",
        type=int,
        default=0,
        help="instead, make random calls of DynamoDB on the model and the emulator",
    )
    asked = parser.parse_args(arguments)
    if asked.examples:
        return random_calls(asked.examples)
    load_probes()
    probes = [p for p in PROBES.values() if asked.service in p.service]
    answers: dict[str, dict[str, str]] = {}
    for name in asked.only or SUBJECTS:
        with started(name) as endpoint:
            if endpoint is not None:
                answers[name] = asyncio.run(ask_all(name, probes, endpoint))
    unexpected = report(answers)
    return 1 if unexpected else 0


def random_calls(examples: int) -> int:
    """Compare random calls on the model and on the embedded emulator; never the same.

    Raises:
        AssertionError: They differ; hypothesis shows the shortest such calls.
    """
    with started("ministack") as endpoint:
        dynamodb = make_client("dynamodb", Emulator(endpoint or "", 0, REGION, ""))
        calls = compare(dynamodb, examples, derandomize=False)
        dynamodb.close()
    say(f"examples={examples} calls={calls} differences=0")
    return 0


@contextmanager
def started(name: str) -> Iterator[str | None]:
    """Start a subject and yield its endpoint; None if no endpoint was named."""
    match name:
        case "ministack":
            with own_emulator(region=REGION) as running:
                yield running.endpoint
        case "moto":
            with moto_server.running() as endpoint:
                yield endpoint
        case "endpoint":
            yield ENDPOINT or None
        case _:
            yield ""


def report(answers: dict[str, dict[str, str]]) -> int:
    """Print the rows with differences; return the number of unknown ones."""
    different = {name: differences(given) for name, given in answers.items()}
    unknown = {name: surprises(name, given) for name, given in answers.items()}
    for probe in PROBES.values():
        rows = [name for name in answers if probe.name in different[name]]
        gone = [name for name in answers if probe.name in unknown[name]]
        if not rows and not gone:
            continue
        say(f"{probe.service}: {probe.name}")
        say(f"  {'AWS':<10} {' or '.join(probe.expected)[:ANSWER_WIDTH]}")
        for name, given in answers.items():
            say(f"  {name:<10} {cell(given, probe.name, name, unknown[name])}")
    asked = {name for given in answers.values() for name in given}
    count = sum(map(len, different.values()))
    unexpected = sum(map(len, unknown.values()))
    say(f"subjects={','.join(answers)}")
    say(f"probes={len(asked)} differences={count} unexpected={unexpected}")
    return unexpected


def cell(given: dict[str, str], probe: str, name: str, unknown: dict[str, str]) -> str:
    """Return a subject's answer, with why we know of it, or that we do not."""
    answer = given.get(probe, "not asked")
    if answer in PROBES[probe].expected:
        told = "known difference is gone" if probe in unknown else ""
        return f"as AWS {told}".strip()
    why = "UNEXPECTED" if probe in unknown else KNOWN[probe, name][1]
    return f"{answer[:ANSWER_WIDTH]}  -- {why}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    for variable in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        if ENDPOINT != "aws":
            os.environ.pop(variable, None)
    sys.exit(main())
