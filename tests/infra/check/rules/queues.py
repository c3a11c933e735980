"""Queues: when a message comes back, where it ends, and who can read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from piecework.settings import Settings
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import rule
from tests.infra.check.templates import Templates

DAY = 86_400
SETTINGS = Settings()


def work_and_dead(templates: Templates) -> Iterator[tuple[Any, Any]]:
    """Yield the work queue and the dead-letter queue of each variant."""
    for stack in templates.stacks("data"):
        yield stack.properties("WorkQueue"), stack.properties("DeadLetterQueue")


def queues(templates: Templates) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
    """Yield every queue of every variant."""
    for stack in templates.stacks():
        for name, queue in stack.of("AWS::SQS::Queue"):
            yield stack, name, queue


@rule
def a_message_is_hidden_for_as_long_as_the_workers_ask(
    templates: Templates,
) -> Iterator[str]:
    for work, _ in work_and_dead(templates):
        if work["VisibilityTimeout"] != SETTINGS.visibility_s:
            yield f"{work['VisibilityTimeout']} s, workers ask {SETTINGS.visibility_s}"


@rule
def a_message_is_hidden_for_longer_than_a_lease_and_the_error_of_two_clocks(
    templates: Templates,
) -> Iterator[str]:
    needed = SETTINGS.lease_s + SETTINGS.clock_skew_s
    for work, _ in work_and_dead(templates):
        if work["VisibilityTimeout"] <= needed:
            yield f"{work['VisibilityTimeout']} s is not beyond {needed} s"


@rule
def a_message_stays_hidden_while_its_lease_could_be_renewed_once_more(
    templates: Templates,
) -> Iterator[str]:
    needed = 4 / 3 * SETTINGS.lease_s
    for work, _ in work_and_dead(templates):
        if work["VisibilityTimeout"] < needed:
            yield f"{work['VisibilityTimeout']} s is less than {needed} s"


@rule
def work_waits_for_days_not_for_hours(templates: Templates) -> Iterator[str]:
    for work, _ in work_and_dead(templates):
        if work["MessageRetentionPeriod"] < 4 * DAY:
            yield f"{work['MessageRetentionPeriod']} s is less than four days"


@rule
def dead_letters_are_kept_for_three_times_as_long_as_messages(
    templates: Templates,
) -> Iterator[str]:
    for work, dead in work_and_dead(templates):
        kept = dead["MessageRetentionPeriod"]
        if not 3 * work["MessageRetentionPeriod"] <= kept <= 14 * DAY:
            yield f"{kept} s beside {work['MessageRetentionPeriod']} s"


@rule
def a_message_moves_to_the_dead_letter_queue_of_its_own(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("data"):
        target = stack.properties("WorkQueue")["RedrivePolicy"]["deadLetterTargetArn"]
        if not target.endswith(stack.properties("DeadLetterQueue")["QueueName"]):
            yield target


@rule
def a_record_gives_up_long_before_its_message_does(
    templates: Templates,
) -> Iterator[str]:
    for work, _ in work_and_dead(templates):
        receives = work["RedrivePolicy"]["maxReceiveCount"]
        if receives < 3 * SETTINGS.max_attempts:
            yield f"{receives} receives for {SETTINGS.max_attempts} attempts"


@rule
def the_dead_letter_queue_takes_from_the_work_queue_alone(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("data"):
        work = stack.properties("WorkQueue")["QueueName"]
        allowed = stack.properties("DeadLetterQueue")["RedriveAllowPolicy"]
        sources = [arn.rsplit(":", 1)[-1] for arn in allowed.get("sourceQueueArns", [])]
        if allowed["redrivePermission"] != "byQueue" or sources != [work]:
            yield f"{allowed['redrivePermission']} {sources}"


@rule
def a_queue_polls_as_long_as_the_workers_do(templates: Templates) -> Iterator[str]:
    for _, name, queue in queues(templates):
        if queue.get("ReceiveMessageWaitTimeSeconds") != SETTINGS.receive_wait_s:
            yield name


@rule
def a_queue_is_encrypted_in_one_way(templates: Templates) -> Iterator[str]:
    for _, name, queue in queues(templates):
        managed = queue.get("SqsManagedSseEnabled") is True
        if managed == bool(queue.get("KmsMasterKeyId")):
            yield name


@rule
def no_queue_is_reached_without_tls(templates: Templates) -> Iterator[str]:
    for stack, name, queue in queues(templates):
        guarded = [
            statement["Resource"]
            for _, policy in stack.of("AWS::SQS::QueuePolicy")
            for statement in policy["PolicyDocument"]["Statement"]
            if refuses_plain_text(statement, "sqs:*")
        ]
        if not any(arn.endswith(f":{queue['QueueName']}") for arn in guarded):
            yield name


def refuses_plain_text(statement: dict[str, Any], action: str) -> bool:
    """Return whether a statement refuses everybody everything that is not encrypted."""
    return statement.items() >= {
        ("Effect", "Deny"),
        ("Principal", "*"),
        ("Action", action),
    } and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
