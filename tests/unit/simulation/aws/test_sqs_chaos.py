from __future__ import annotations

import pytest

from tests.unit.simulation.account import Account

KINDS = (
    "sqs.duplicate",
    "sqs.reorder",
    "sqs.delay",
    "sqs.lost",
    "sqs.partial",
    "sqs.empty",
    "sqs.undelete",
)


@pytest.fixture
def account() -> Account:
    return Account()


def sent(account: Account, *bodies: str) -> list[str]:
    """Send a batch; return the bodies of the entries that failed."""
    entries = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]
    reply = account.call("send_message_batch", Entries=entries)
    assert not any(failed["SenderFault"] for failed in reply["Failed"])
    return [bodies[int(failed["Id"])] for failed in reply["Failed"]]


def work_off(account: Account) -> list[str]:
    """Receive and delete until all is gone for good; return the bodies."""
    done = []
    for _ in range(20):
        for got in account.receive():
            account.delete(got.handle)
            done.append(got.body)
        account.now += 10
    return done


def test_a_send_may_store_a_second_copy(account: Account) -> None:
    account.chaos.left = {"sqs.duplicate": 1}
    account.send("a", "b")
    assert ["a", "a", "b"] == work_off(account)


def test_the_copies_of_a_message_have_one_id_and_two_handles(
    account: Account,
) -> None:
    account.chaos.left = {"sqs.duplicate": 1}
    account.send("a")
    found = account.call("receive_message", MaxNumberOfMessages=10)["Messages"]
    assert 1 == len({message["MessageId"] for message in found})
    assert 2 == len({message["ReceiptHandle"] for message in found})


def test_a_receive_may_leave_a_message_for_the_next(account: Account) -> None:
    account.send("a", "b")
    account.chaos.left = {"sqs.duplicate": 1}
    assert ["a", "b"] == account.bodies()
    assert ["a"] == account.bodies()
    assert [] == account.bodies()


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_is_counted_and_deleted_apart(seed: int) -> None:
    account = Account(seed)
    account.send("a")
    account.chaos.left = {"sqs.duplicate": 1}
    [first] = account.receive()
    [copy] = account.receive()
    assert [1, 2] == [first.received, copy.received]
    account.delete(first.handle)
    account.now += 30
    [left] = account.receive()
    message, _, _ = copy.handle.rpartition("/")
    assert f"{message}/3" == left.handle


def test_a_receive_may_take_messages_in_any_order() -> None:
    orders = set()
    for seed in range(20):
        account = Account(seed)
        account.chaos.left = {"sqs.reorder": 99}
        account.send("a", "b", "c")
        orders.add("".join(account.bodies()))
    assert len(orders) > 3
    assert all("abc" == "".join(sorted(order)) for order in orders)


def test_a_sent_message_may_be_late(account: Account) -> None:
    account.chaos.left = {"sqs.delay": 1}
    account.send("a", "b")
    assert ["b"] == account.bodies()
    account.now += 20
    assert ["a"] == account.bodies()


def test_a_sent_message_may_be_lost_and_no_other(account: Account) -> None:
    account.chaos.left = {"sqs.lost": 1, "sqs.duplicate": 1}
    account.send("a", "b", "c")
    assert ["b", "b", "c"] == work_off(account)


def test_an_entry_may_fail_and_is_not_done(account: Account) -> None:
    account.chaos.left = {"sqs.partial": 1}
    assert ["a"] == sent(account, "a", "b")
    assert ["b"] == account.bodies()


@pytest.mark.parametrize(
    ("operation", "more"),
    [
        ("delete_message_batch", {}),
        ("change_message_visibility_batch", {"VisibilityTimeout": 0}),
    ],
)
def test_what_fails_in_a_batch_leaves_its_message_as_it_was(
    account: Account, operation: str, more: dict[str, int]
) -> None:
    account.send("a")
    [got] = account.receive()
    account.chaos.left = {"sqs.partial": 1}
    entries = [{"Id": "0", "ReceiptHandle": got.handle, **more}]
    reply = account.call(operation, Entries=entries)
    assert [] == reply["Successful"]
    assert [] == account.bodies()
    account.now += 30
    assert ["a"] == account.bodies()


def test_a_receive_may_find_nothing_although_there_is_something(
    account: Account,
) -> None:
    account.send("a")
    account.chaos.left = {"sqs.empty": 1}
    assert [] == account.bodies()
    assert ["a"] == account.bodies()


def test_what_would_make_no_difference_is_not_asked_for(account: Account) -> None:
    account.chaos.left = {"sqs.empty": 1, "sqs.reorder": 1}
    assert [] == account.bodies()
    account.send("a")
    assert [] == account.bodies()
    assert ["a"] == account.bodies()
    assert 1 == account.chaos.left["sqs.reorder"]


def test_a_deleted_message_may_come_back_once(account: Account) -> None:
    account.send("a", "b")
    account.chaos.left = {"sqs.undelete": 2}
    assert ["a", "a", "b", "b"] == sorted(work_off(account))
    assert 0 == account.chaos.left["sqs.undelete"]


@pytest.mark.parametrize("seed", range(20))
def test_with_all_but_loss_each_message_is_had_at_least_once(seed: int) -> None:
    account = Account(seed)
    account.chaos.left = dict.fromkeys(set(KINDS) - {"sqs.lost", "sqs.partial"}, 9)
    bodies = [str(number) for number in range(10)]
    account.send(*bodies)
    done = work_off(account)
    assert set(bodies) == set(done)
    assert len(done) > len(bodies)
