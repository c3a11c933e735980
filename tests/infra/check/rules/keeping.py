"""Data outlives its stack, is never replaced unseen, and may have a key of its own."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.settings import Settings
from tests.infra.check.rules.rule import rule
from tests.infra.check.samples import ACCOUNT, REGION
from tests.infra.check.templates import Templates

DATA = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue"}
#: What holds data, or without which data cannot be read.
STATEFUL = DATA | {"AWS::KMS::Key"}
#: What guards it: a bucket that stays is not to stay open.
GUARDS = {"AWS::KMS::Alias", "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy"}


@rule
def data_outlives_its_stack(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("data"):
        for name, resource in stack.resources.items():
            if resource["Type"] in STATEFUL | GUARDS:
                policies = {"DeletionPolicy", "UpdateReplacePolicy"}
                if {resource.get(policy) for policy in policies} != {"Retain"}:
                    yield name


@rule
def no_update_replaces_or_deletes_data(templates: Templates) -> Iterator[str]:
    for statement in templates.stack_policy["Statement"]:
        if statement["Effect"] != "Deny" or statement["Principal"] != "*":
            continue
        refused = set(statement["Action"])
        kinds = set(statement["Condition"]["StringEquals"]["ResourceType"])
        if refused == {"Update:Replace", "Update:Delete"} and kinds == STATEFUL:
            return
    yield "data-stack-policy.json lets it happen"


@rule
def data_is_in_the_data_stack_alone(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        for name, resource in stack.resources.items():
            if resource["Type"] in DATA and stack.name != "data":
                yield f"{stack.name}: {name}"


@rule
def a_resource_has_the_name_that_the_processes_look_for(
    templates: Templates,
) -> Iterator[str]:
    settings = Settings()
    for stack in templates.stacks("data"):
        for name, attribute, expected in (
            ("WorkQueue", "QueueName", settings.work_queue),
            ("DeadLetterQueue", "QueueName", settings.dead_letter_queue),
            ("Checkpoints", "TableName", settings.checkpoints_table),
            ("DeadLetters", "TableName", settings.dead_letters_table),
            ("Bucket", "BucketName", settings.bucket(ACCOUNT, REGION)),
        ):
            found = stack.properties(name).get(attribute)
            if found != expected:
                yield f"{name} is {found}, not {expected}"


@rule
def the_key_of_ones_own_is_used_wherever_data_lies(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("data"):
        used = {
            *(each.get("KmsMasterKeyId") for _, each in stack.of("AWS::SQS::Queue")),
            *(
                each["SSESpecification"].get("KMSMasterKeyId")
                for _, each in stack.of("AWS::DynamoDB::Table")
            ),
            *(
                each["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
                for _, bucket in stack.of("AWS::S3::Bucket")
                for each in bucket["BucketEncryption"][
                    "ServerSideEncryptionConfiguration"
                ]
            ),
        }
        own = stack.parameters["Encryption"] == "customer"
        if used != ({"Key.Arn"} if own else {None}):
            yield f"Encryption {stack.parameters['Encryption']}: {used}"


@rule
def a_key_is_rotated_and_that_of_data_waits_a_month_before_it_goes(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks():
        for name, key in stack.of("AWS::KMS::Key"):
            if key.get("EnableKeyRotation") is not True:
                yield f"{stack.name}: {name} is not rotated"
            if stack.name == "data" and key.get("PendingWindowInDays") != 30:
                yield f"{name} goes too soon"
