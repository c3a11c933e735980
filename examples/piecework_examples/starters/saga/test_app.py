"""Test the saga in memory: kills, refusals, and what the services were asked to do."""

from piecework.testing import Piecework, killed_after

from app import Trip, trip

ROWS = [Trip(traveller="ann", city="Rome", cents=42_000)]
NOWHERE = [Trip(traveller="kim", city="Atlantis", cents=42_000)]
TOO_DEAR = [Trip(traveller="eve", city="Rome", cents=990_000)]


async def test_a_trip_is_booked_and_paid(piecework: Piecework) -> None:
    run = await piecework.run(trip, ROWS)

    assert run.results == {0: "room in Rome, ann paid 420.00"}


async def test_a_declined_card_releases_the_room(piecework: Piecework) -> None:
    run = await piecework.run(trip, TOO_DEAR)

    assert run.results == {}
    assert (run.effects("reserve_room"), run.effects("release_room")) == (1, 1)
    assert run.effects("send_mail") == 0


async def test_a_refused_room_is_not_released(piecework: Piecework) -> None:
    run = await piecework.run(trip, NOWHERE)

    assert run.results == {}
    assert (run.calls("reserve_room"), run.calls("release_room")) == (1, 0)


async def test_a_kill_after_the_payment_charges_once(piecework: Piecework) -> None:
    run = await piecework.run(trip, ROWS, faults=[killed_after("take_payment")])

    assert run.results == {0: "room in Rome, ann paid 420.00"}
    assert run.effects("charge_card") == 1


def test_no_schedule_of_faults_breaks_a_promise(piecework: Piecework) -> None:
    piecework.simulate(trip, [*ROWS, *TOO_DEAR], schedules=10)
