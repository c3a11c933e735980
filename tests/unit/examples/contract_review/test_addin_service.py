"""The add-in as a service, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession

from piecework_examples.contract_review.services.addin import AddinService
from piecework_examples.contract_review.services.faults import Fault, Faults
from piecework_examples.contract_review.services.ledger import Ledger

CLAUSE = {"job": "j", "clause": 1}


async def send(
    session: ClientSession, path: str, key: str, body: dict[str, Any] | None = None
) -> tuple[int, Any, bool]:
    headers = {"Idempotency-Key": key}
    async with session.post(path, json=body or CLAUSE, headers=headers) as response:
        replayed = response.headers.get("Idempotent-Replayed") == "true"
        return response.status, await response.json(), replayed


async def test_one_key_acts_once_and_is_answered_the_same(
    session: ClientSession, addin: AddinService
) -> None:
    first = await send(session, "/slots", "k")
    assert (201, {"slot": "slot-1"}, False) == first
    assert (201, {"slot": "slot-1"}, True) == await send(session, "/slots", "k")
    assert {"reserve": 1} == addin.ledger.shown()["effects"]
    assert (1, 0) == (addin.ledger.replays, addin.ledger.shown()["duplicate_effects"])


async def test_one_key_with_another_body_is_a_conflict(session: ClientSession) -> None:
    await send(session, "/slots", "k")
    status, _, _ = await send(session, "/slots", "k", {"job": "j", "clause": 2})
    assert 409 == status


async def test_another_key_for_the_same_effect_is_a_duplicate_in_the_books(
    session: ClientSession,
) -> None:
    for path in ("/slots", "/findings", "/notifications"):
        for key in ("a", "b"):
            await send(session, path, path + key)
    async with session.get("/ledger?job=j") as response:
        ledger = await response.json()
    assert 3 == ledger["duplicate_effects"]
    assert {"notify": 2, "publish": 2, "reserve": 2} == ledger["effects"]
    async with session.get("/ledger?job=another") as response:
        assert 0 == (await response.json())["duplicate_effects"]


async def test_a_slot_may_be_reserved_again_after_its_release(
    session: ClientSession, addin: AddinService
) -> None:
    await send(session, "/slots", "1")
    assert [("j", 1)] == addin.ledger.shown()["slots_open"]
    assert {"released": True} == (await send(session, "/slots/release", "2"))[1]
    assert {"released": False} == (await send(session, "/slots/release", "3"))[1]
    assert {"slot": "slot-2"} == (await send(session, "/slots", "4"))[1]
    assert 0 == addin.ledger.shown()["duplicate_effects"]


async def test_a_command_without_key_or_sense_is_refused(
    session: ClientSession,
) -> None:
    async with session.post("/slots", json=CLAUSE) as response:
        assert 400 == response.status
    assert 422 == (await send(session, "/slots", "k", {"job": "j"}))[0]


async def test_a_throttled_command_has_no_effect_and_a_time_to_wait(
    session: ClientSession, addin: AddinService
) -> None:
    addin.faults = Faults(rate=1, tries=1, mix={Fault.THROTTLED: 1})
    headers = {"Idempotency-Key": "k"}
    async with session.post("/slots", json=CLAUSE, headers=headers) as response:
        assert (429, "1") == (response.status, response.headers["Retry-After"])
    assert {} == addin.ledger.shown()["effects"]
    assert (201, {"slot": "slot-1"}, False) == await send(session, "/slots", "k")


async def test_a_lost_answer_is_answered_on_the_second_try(
    session: ClientSession, addin: AddinService
) -> None:
    addin.faults = Faults(rate=1, tries=1, mix={Fault.LOST: 1})
    with pytest.raises(ClientConnectionError):
        await send(session, "/slots", "k")
    assert {"reserve": 1} == addin.ledger.shown()["effects"]
    assert (201, {"slot": "slot-1"}, True) == await send(session, "/slots", "k")


async def test_the_books_survive_a_restart(
    session: ClientSession, addin: AddinService
) -> None:
    await send(session, "/slots", "1")
    await send(session, "/findings", "2")
    before = addin.ledger.shown()
    addin.ledger = Ledger.load(addin.ledger.dump())
    assert before == addin.ledger.shown()
    assert (201, {"slot": "slot-1"}, True) == await send(session, "/slots", "1")
