from __future__ import annotations

import pytest

from tests.unit.simulation.account import Account


@pytest.fixture
def account() -> Account:
    return Account()


def test_a_message_received_too_often_is_dead_lettered_with_its_age(
    account: Account,
) -> None:
    account.send("a")
    for _ in range(3):
        assert ["a"] == account.bodies()
        account.now += 100
    assert [] == account.bodies()
    assert None is account.sqs.next_at(account.work)
    account.now += 199
    assert ["a"] == account.bodies(queue=account.dead, VisibilityTimeout=0)
    account.now += 1
    assert [] == account.bodies(queue=account.dead)


def test_a_queue_forgets_what_is_too_old_in_flight_or_not(account: Account) -> None:
    account.send("a", "b")
    account.call("receive_message", VisibilityTimeout=1000)
    account.now += 399
    assert account.now - 399 == account.sqs.next_at(account.work)
    account.now += 1
    assert [] == account.bodies()


def test_what_is_forgotten_is_not_waited_for(account: Account) -> None:
    account.send("a")
    account.now += 400
    assert None is account.sqs.next_at(account.work)


def test_what_is_forgotten_is_not_deleted_once_more(account: Account) -> None:
    told: list[object] = []
    account.sqs.on_delete = lambda *what: told.append(what)
    account.send("a")
    [got] = account.receive()
    account.now += 400
    account.delete(got.handle)
    assert [] == told


def test_a_message_that_expires_while_hidden_is_not_waited_for(
    account: Account,
) -> None:
    account.send("a")
    account.receive(VisibilityTimeout=500)
    assert None is account.sqs.next_at(account.work)


def test_twelve_hours_after_its_receive_a_message_shows_again() -> None:
    account = Account()
    url = account.sqs.create_queue("long")
    account.call("send_message", QueueUrl=url, MessageBody="a")
    [got] = account.receive(queue=url, VisibilityTimeout=43_200)
    account.now += 1
    for seconds, refused in ((43_199, False), (43_200, True), (43_199, False)):
        entry = {"Id": "0", "ReceiptHandle": got.handle, "VisibilityTimeout": seconds}
        reply = account.call(
            "change_message_visibility_batch", QueueUrl=url, Entries=[entry]
        )
        assert refused == bool(reply["Failed"])
    account.now += 43_199
    assert ["a"] == account.bodies(queue=url)


def test_each_receive_has_twelve_hours_of_its_own() -> None:
    account = Account()
    url = account.sqs.create_queue("long")
    account.call("send_message", QueueUrl=url, MessageBody="a")
    account.receive(queue=url)
    account.now += 43_200
    [got] = account.receive(queue=url)
    handle = {"QueueUrl": url, "ReceiptHandle": got.handle}
    account.call("change_message_visibility", **handle, VisibilityTimeout=43_200)
    account.now += 43_199
    assert [] == account.bodies(queue=url)


def test_a_delete_names_its_receive(account: Account) -> None:
    told: list[tuple[str, str, float]] = []
    account.sqs.on_delete = lambda *what: told.append(what)
    account.send("a")
    account.receive(VisibilityTimeout=5)
    account.now += 5
    [got] = account.receive()
    received = account.now
    account.now += 7
    account.delete(got.handle)
    account.delete(got.handle)
    assert [(account.work, "a", received)] == told
    assert [] == account.visible_after_each_minute(3)


def test_an_old_handle_may_or_may_not_delete() -> None:
    left = set()
    for seed in range(20):
        account = Account(seed)
        account.send("a")
        [old] = account.receive(VisibilityTimeout=0)
        account.receive()
        account.delete(old.handle)
        account.now += 60
        left.add(len(account.bodies()))
    assert {0, 1} == left
