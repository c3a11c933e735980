"""The subjects of the probes, each started once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from verification.conformance import moto_server
from verification.conformance.probe import load_probes, probes_of
from verification.conformance.subjects import ENDPOINT, ask_all

load_probes()


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """Run moto, and return where it listens."""
    with moto_server.running() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint_of(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return the endpoint of a subject, started on first use."""

    def endpoint(subject: str) -> str:
        match subject:
            case "ministack":
                return str(request.getfixturevalue("emulator").endpoint)
            case "moto":
                return str(request.getfixturevalue("moto"))
            case "endpoint" if not ENDPOINT:
                pytest.skip("PIECEWORK_CONFORMANCE_ENDPOINT names no endpoint")
            case "endpoint":
                return ENDPOINT
        return ""

    return endpoint


@pytest.fixture
def answers(endpoint_of: Callable[[str], str]) -> Callable[[str, str], dict[str, str]]:
    """Return a subject's answers to the probes of a service."""

    def ask(subject: str, service: str) -> dict[str, str]:
        endpoint = endpoint_of(subject)
        return asyncio.run(ask_all(subject, probes_of(service), endpoint))

    return ask
