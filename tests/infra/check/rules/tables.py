"""Tables: their keys, what goes away by itself, and what does not go away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from piecework.store.dead_letters import expires_at
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import rule
from tests.infra.check.templates import Templates


def tables(templates: Templates) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
    """Yield every table of every variant."""
    for stack in templates.stacks():
        for name, table in stack.of("AWS::DynamoDB::Table"):
            yield stack, name, table


@rule
def a_table_has_the_two_keys_of_the_code(templates: Templates) -> Iterator[str]:
    for _, name, table in tables(templates):
        if table["KeySchema"] != [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ]:
            yield name


@rule
def a_table_is_paid_by_the_request(templates: Templates) -> Iterator[str]:
    for _, name, table in tables(templates):
        if table.get("BillingMode") != "PAY_PER_REQUEST":
            yield name


@rule
def a_table_has_no_index_that_could_lag(templates: Templates) -> Iterator[str]:
    for _, name, table in tables(templates):
        if any(key.endswith("Indexes") for key in table):
            yield name


@rule
def what_may_be_swept_goes_by_the_attribute_that_the_code_writes(
    templates: Templates,
) -> Iterator[str]:
    for _, name, table in tables(templates):
        goes = table.get("TimeToLiveSpecification", {})
        if goes != {"AttributeName": expires_at.__name__, "Enabled": True}:
            yield f"{name}: {goes}"


@rule
def a_table_can_be_had_back_as_it_was_at_any_second(
    templates: Templates,
) -> Iterator[str]:
    for _, name, table in tables(templates):
        recovery = table.get("PointInTimeRecoverySpecification", {})
        if recovery.get("PointInTimeRecoveryEnabled") is not True:
            yield name


@rule
def a_table_is_encrypted_with_a_key_that_can_be_audited(
    templates: Templates,
) -> Iterator[str]:
    for _, name, table in tables(templates):
        if table.get("SSESpecification", {}).get("SSEEnabled") is not True:
            yield name


@rule
def a_table_refuses_deletion_unless_told_otherwise(
    templates: Templates,
) -> Iterator[str]:
    for stack, name, table in tables(templates):
        protected = stack.parameters.get("Protect", "true") == "true"
        if table.get("DeletionProtectionEnabled") is not protected:
            yield name
    if templates.default("data").parameters["Protect"] != "true":
        yield "the default protects nothing"
