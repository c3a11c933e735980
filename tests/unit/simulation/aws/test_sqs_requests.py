from __future__ import annotations

import pytest

from tests.unit.simulation.account import Account


@pytest.fixture
def account() -> Account:
    return Account()


def test_a_long_poll_wakes_for_an_earlier_message(account: Account) -> None:
    told: list[str] = []
    account.sqs.on_arrival = told.append
    account.send("a")
    [got] = account.receive()
    assert [account.work] == told
    account.hide(got.handle, 60)
    assert [account.work] == told
    account.hide(got.handle, 0)
    assert [account.work] * 2 == told
    assert account.now == account.sqs.next_at(account.work)


def test_a_notified_poll_may_receive_at_once(account: Account) -> None:
    got: list[str] = []
    account.sqs.on_arrival = lambda _url: got.extend(account.bodies())
    account.chaos.left = {"sqs.duplicate": 1}
    account.send("a")
    assert ["a", "a"] == got


def test_what_is_forgotten_is_not_counted(account: Account) -> None:
    account.send("a")
    account.now += 400
    name = "ApproximateNumberOfMessages"
    reply = account.call("get_queue_attributes", AttributeNames=[name])
    assert {name: "0"} == reply["Attributes"]
