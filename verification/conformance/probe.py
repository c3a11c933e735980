"""A question to a service and the answer that AWS documents; asked of every subject.

A probe is an async function from a subject to a short text. What it raises is its
answer too: a refusal of the service by its code. So a probe that expects to be refused
just lets the error pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from verification.conformance.subject import Subject

Ask: TypeAlias = "Callable[[Subject], Awaitable[str]]"


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, and the answers that AWS may give."""

    name: str
    expected: tuple[str, ...]
    service: str
    ask: Ask


PROBES: dict[str, Probe] = {}
#: Differences from AWS that we know of: probe and subject, to the answer and why.
KNOWN: dict[tuple[str, str], tuple[str, str]] = {}


def probe(
    name: str, *, expected: str | tuple[str, ...], service: str = ""
) -> Callable[[Ask], Ask]:
    """Register a function as a probe; its module is named after its service.

    Several expected answers are for what AWS leaves open.
    """

    def register(ask: Ask) -> Ask:
        if name in PROBES:
            message = f"two probes are called {name!r}"
            raise ValueError(message)
        answers = (expected,) if isinstance(expected, str) else expected
        module = ask.__module__.rpartition(".")[2]
        of = service or module.partition("_")[0]
        PROBES[name] = Probe(name, answers, of, ask)
        return ask

    return register


def load_probes() -> None:
    """Import every module of probes and known differences in this folder."""
    for kind in ("probes", "differences"):
        for path in sorted(Path(__file__).parent.glob(f"*_{kind}.py")):
            importlib.import_module(f"verification.conformance.{path.stem}")


def probes_of(service: str) -> list[Probe]:
    """Return the probes of a service, in the order in which they were written."""
    return [found for found in PROBES.values() if found.service == service]


async def answer(asked: Probe, subject: Subject) -> str:
    """Ask the question; return the answer, also if it is a refusal."""
    try:
        return await asked.ask(subject)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    except Exception as error:  # noqa: BLE001 -- an unexpected answer fails the probe anyway
        return f"broken: {type(error).__name__}"


def differences(answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers that differ from AWS."""
    return {
        name: given
        for name, given in answers.items()
        if given not in PROBES[name].expected
    }


def surprises(subject: str, answers: Mapping[str, str]) -> dict[str, str]:
    """Return unknown differences, and known ones that have disappeared."""
    different = differences(answers)
    known = {
        name: given
        for (name, whose), (given, _) in KNOWN.items()
        if whose == subject and name in answers
    }
    unknown = {n: given for n, given in different.items() if known.get(n) != given}
    gone = {n: "as AWS: no longer a difference" for n in known if n not in different}
    return unknown | gone
