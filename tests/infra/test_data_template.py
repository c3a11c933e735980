"""Each setting of the data stack, above all those that the emulator drops unseen."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from orchestrator.embedded import resources
from piecework.settings import Settings

DAY = 86_400
ARN = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}"
EXPIRES_CURRENT = {"ExpirationInDays", "ExpirationDate"}


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as their long ones."""


def _short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _short_form)

TEMPLATE = yaml.load(resources.template(), Loader=Loader)  # noqa: S506 - a SafeLoader
RESOURCES = TEMPLATE["Resources"]


def properties(name: str) -> dict[str, Any]:
    found: dict[str, Any] = RESOURCES[name]["Properties"]
    return found


@pytest.mark.parametrize(
    ("resource", "attribute", "setting"),
    [
        ("WorkQueue", "QueueName", Settings().work_queue),
        ("DeadLetterQueue", "QueueName", Settings().dead_letter_queue),
        ("Checkpoints", "TableName", Settings().checkpoints_table),
        ("DeadLetters", "TableName", Settings().dead_letters_table),
        ("Bucket", "BucketName", Settings().bucket("111122223333", "eu-west-1")),
    ],
)
def test_a_resource_has_the_name_that_the_processes_look_for(
    resource: str, attribute: str, setting: str
) -> None:
    values = {
        "${App}": "piecework",
        "${Env}": "local",
        "${AWS::AccountId}": "111122223333",
        "${AWS::Region}": "eu-west-1",
    }
    name = properties(resource)[attribute]["Fn::Sub"]
    for variable, value in values.items():
        name = name.replace(variable, value)
    assert setting == name


def test_a_message_is_hidden_for_longer_than_a_lease_lasts() -> None:
    hidden = properties("WorkQueue")["VisibilityTimeout"]
    assert hidden == Settings().visibility_s
    assert hidden > Settings().lease_s


def test_dead_letters_are_kept_for_longer_than_messages() -> None:
    assert properties("WorkQueue")["MessageRetentionPeriod"] == 4 * DAY
    assert properties("DeadLetterQueue")["MessageRetentionPeriod"] == 14 * DAY


def test_a_message_moves_to_the_dead_letter_queue_after_ten_receives() -> None:
    assert properties("WorkQueue")["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": "DeadLetterQueue.Arn"},
        "maxReceiveCount": 10,
    }


def test_the_dead_letter_queue_takes_from_the_work_queue_alone() -> None:
    policy = properties("DeadLetterQueue")["RedriveAllowPolicy"]
    work = properties("WorkQueue")["QueueName"]["Fn::Sub"]
    assert policy["redrivePermission"] == "byQueue"
    assert [{"Fn::Sub": f"{ARN}:{work}"}] == policy["sourceQueueArns"]


@pytest.mark.parametrize("queue", ["WorkQueue", "DeadLetterQueue"])
def test_a_queue_encrypts_and_polls_long(queue: str) -> None:
    assert properties(queue)["SqsManagedSseEnabled"] is True
    assert properties(queue)["ReceiveMessageWaitTimeSeconds"] == 20


@pytest.mark.parametrize("table", ["Checkpoints", "DeadLetters"])
def test_a_table_has_the_two_keys_and_is_paid_by_request(table: str) -> None:
    assert properties(table)["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert properties(table)["BillingMode"] == "PAY_PER_REQUEST"


@pytest.mark.parametrize("table", ["Checkpoints", "DeadLetters"])
def test_a_table_has_no_index_that_could_lag(table: str) -> None:
    assert [] == [name for name in properties(table) if name.endswith("Indexes")]


@pytest.mark.parametrize("table", ["Checkpoints", "DeadLetters"])
def test_a_table_has_what_the_emulator_drops(table: str) -> None:
    assert properties(table)["TimeToLiveSpecification"] == {
        "AttributeName": "expires_at",
        "Enabled": True,
    }
    recovery = properties(table)["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    assert properties(table)["SSESpecification"] == {"SSEEnabled": True}


@pytest.mark.parametrize("table", ["Checkpoints", "DeadLetters"])
def test_a_table_refuses_deletion_unless_told_otherwise(table: str) -> None:
    protected = properties(table)["DeletionProtectionEnabled"]
    assert protected == {"Fn::If": ["Protected", True, False]}
    assert TEMPLATE["Parameters"]["Protect"]["Default"] == "true"
    condition = TEMPLATE["Conditions"]["Protected"]
    assert condition == {"Fn::Equals": [{"Ref": "Protect"}, "true"]}


@pytest.mark.parametrize(
    "resource", ["Checkpoints", "DeadLetters", "Bucket", "BucketPolicy"]
)
def test_records_outlive_their_stack(resource: str) -> None:
    assert RESOURCES[resource]["DeletionPolicy"] == "Retain"
    assert RESOURCES[resource]["UpdateReplacePolicy"] == "Retain"


def test_the_bucket_is_closed_to_the_public() -> None:
    block = properties("Bucket")["PublicAccessBlockConfiguration"]
    assert block == {
        "BlockPublicAcls": True,
        "BlockPublicPolicy": True,
        "IgnorePublicAcls": True,
        "RestrictPublicBuckets": True,
    }
    rules = properties("Bucket")["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]


def test_the_bucket_keeps_versions_and_encrypts() -> None:
    assert properties("Bucket")["VersioningConfiguration"] == {"Status": "Enabled"}
    (rule,) = properties("Bucket")["BucketEncryption"][
        "ServerSideEncryptionConfiguration"
    ]
    assert rule == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}


def test_the_bucket_lets_go_of_old_versions_and_of_nothing_current() -> None:
    rules = properties("Bucket")["LifecycleConfiguration"]["Rules"]
    assert all(rule["Status"] == "Enabled" for rule in rules)
    assert not [key for rule in rules for key in rule if key in EXPIRES_CURRENT]
    by_name = {rule["Id"]: rule for rule in rules}
    old = by_name["overwritten"]["NoncurrentVersionExpiration"]
    assert old["NoncurrentDays"] >= 45
    uploads = by_name["abandoned-uploads"]["AbortIncompleteMultipartUpload"]
    assert uploads == {"DaysAfterInitiation": 7}


@pytest.mark.parametrize(
    ("policy", "guarded", "action"),
    [
        ("WorkQueuePolicy", {"Ref": "WorkQueue"}, "sqs:*"),
        ("DeadLetterQueuePolicy", {"Ref": "DeadLetterQueue"}, "sqs:*"),
        ("BucketPolicy", {"Ref": "Bucket"}, "s3:*"),
    ],
)
def test_nothing_is_reached_without_tls(
    policy: str, guarded: dict[str, str], action: str
) -> None:
    target = properties(policy)
    assert guarded in (target.get("Bucket"), *target.get("Queues", ()))
    (statement,) = target["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Principal"] == "*"
    assert statement["Action"] == action
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_longest_names_that_are_allowed_still_fit_a_bucket() -> None:
    longest = f"{'a' * 20}-{'e' * 14}-{'1' * 12}-ap-southeast-1"
    assert len(longest) <= 63
    assert TEMPLATE["Parameters"]["App"]["AllowedPattern"] == "[a-z][a-z0-9-]{0,19}"
    assert TEMPLATE["Parameters"]["Env"]["AllowedPattern"] == "[a-z][a-z0-9-]{0,13}"
