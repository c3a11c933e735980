"""What holds data: when a message comes back, what is kept, and who can read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from piecework.settings import Settings
from piecework.store.dead_letters import expires_at
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import (
    Properties,
    Rule,
    all_of,
    every,
    settings,
    statements_of,
    within,
)
from tests.infra.check.samples import ACCOUNT, REGION
from tests.infra.check.templates import Templates

DAY = 86_400
SETTINGS = Settings()
BUCKET, KEY = "AWS::S3::Bucket", "AWS::KMS::Key"
QUEUE, TABLE = "AWS::SQS::Queue", "AWS::DynamoDB::Table"
DATA = {TABLE, BUCKET, QUEUE}
#: What holds data, or without which data cannot be read.
STATEFUL = DATA | {KEY}
#: What guards it: a bucket that stays is not to stay open.
GUARDS = {"AWS::KMS::Alias", "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy"}
REFUSES_ANOTHER_KEY = {
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
}


def guarded(stack: Stack, action: str) -> Iterator[Any]:
    """Yield the resources that refuse everybody everything that is not encrypted."""
    for resource in stack.resources.values():
        for statement in statements_of(resource.get("Properties", {})):
            wanted = {"Effect": "Deny", "Principal": "*", "Action": action}
            only = {"Bool": {"aws:SecureTransport": "false"}}
            if statement.items() >= wanted.items() and statement["Condition"] == only:
                yield statement["Resource"]


def takes_from(dead: Properties, stack: Stack) -> bool:
    """Return whether a dead-letter queue takes from its own work queues alone."""
    allowed = dead["RedriveAllowPolicy"]
    sources = [arn.rsplit(":", 1)[-1] for arn in allowed.get("sourceQueueArns", [])]
    by_queue = allowed["redrivePermission"] == "byQueue"
    own = [
        resource["Properties"]["QueueName"]
        for name, resource in stack.resources.items()
        if resource["Type"] == QUEUE and name != "DeadLetterQueue"
    ]
    return by_queue and sources == own


def lifecycle(bucket: Properties) -> dict[str, Properties]:
    """Return the rules of a bucket, by their ids."""
    return {each["Id"]: each for each in bucket["LifecycleConfiguration"]["Rules"]}


def by_default(bucket: Properties) -> Properties:
    """Return how a bucket encrypts by default."""
    (each,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    return dict(each)


def encrypts(bucket: Properties, stack: Stack) -> bool:
    """Return whether a bucket encrypts with the chosen key, once for many objects."""
    each, customer = by_default(bucket), stack.parameters["Encryption"] == "customer"
    algorithm = each["ServerSideEncryptionByDefault"]["SSEAlgorithm"]
    if not customer:
        return bool(algorithm == "AES256")
    return algorithm == "aws:kms" and each.get("BucketKeyEnabled") is True


def takes_no_other_key(policy: Properties, stack: Stack) -> bool:
    """Return whether the bucket of a customer's key refuses objects under another."""
    refused = {
        key
        for statement in statements_of(policy)
        if (statement["Effect"], statement["Action"]) == ("Deny", "s3:PutObject")
        for key in statement["Condition"]["StringNotEquals"]
    }
    return (
        stack.parameters["Encryption"] != "customer" or refused == REFUSES_ANOTHER_KEY
    )


def data_outlives_its_stack(templates: Templates) -> Iterator[str]:
    policies = "DeletionPolicy", "UpdateReplacePolicy"
    for stack in templates.stacks("data"):
        for name, resource in stack.resources.items():
            found = {resource.get(policy) for policy in policies}
            if resource["Type"] in STATEFUL | GUARDS and found != {"Retain"}:
                yield name


def no_update_replaces_data(templates: Templates) -> Iterator[str]:
    for statement in templates.stack_policy["Statement"]:
        if statement["Effect"] == "Deny" and statement["Principal"] == "*":
            refused = set(statement["Action"])
            kinds = set(statement["Condition"]["StringEquals"]["ResourceType"])
            if refused == {"Update:Replace", "Update:Delete"} and kinds == STATEFUL:
                return
    yield "data-stack-policy.json lets it happen"


def data_is_in_the_data_stack(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        for name, resource in stack.resources.items():
            if resource["Type"] in DATA and stack.name != "data":
                yield f"{stack.name}: {name}"


def keys_used(templates: Templates) -> Iterator[str]:
    """Yield the variants whose data does not lie under the chosen key."""
    for stack in templates.stacks("data"):
        encryption = [by_default(bucket) for _, bucket in stack.of(BUCKET)]
        used = {
            *(each.get("KmsMasterKeyId") for _, each in stack.of(QUEUE)),
            *(
                table.get("SSESpecification", {}).get("KMSMasterKeyId")
                for _, table in stack.of(TABLE)
            ),
            *(
                each["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
                for each in encryption
            ),
        }
        customer = stack.parameters["Encryption"] == "customer"
        if used != ({"Key.Arn"} if customer else {None}):
            yield f"Encryption {stack.parameters['Encryption']}: {used}"


RULES: dict[str, Rule] = {
    "a message is hidden for as long as the workers ask": settings(
        "WorkQueue", {"VisibilityTimeout": SETTINGS.visibility_s}
    ),
    "a message is hidden for longer than a lease and the error of two clocks": settings(
        "WorkQueue",
        {"VisibilityTimeout": lambda s: s > SETTINGS.lease_s + SETTINGS.clock_skew_s},
    ),
    "a message stays hidden while its lease could be renewed once more": settings(
        "WorkQueue", {"VisibilityTimeout": within(4 / 3 * SETTINGS.lease_s)}
    ),
    "work waits for days not for hours": settings(
        "WorkQueue", {"MessageRetentionPeriod": within(4 * DAY)}
    ),
    "dead letters are kept for three times as long as messages": all_of(
        "DeadLetterQueue",
        lambda dead, stack: (
            3 * stack.properties("WorkQueue")["MessageRetentionPeriod"]
            <= dead["MessageRetentionPeriod"]
            <= 14 * DAY
        ),
    ),
    "a message moves to the dead letter queue of its own": all_of(
        "WorkQueue",
        lambda work, stack: work["RedrivePolicy"]["deadLetterTargetArn"].endswith(
            stack.properties("DeadLetterQueue")["QueueName"]
        ),
    ),
    "a chunk ends long before its message expires": settings(
        "WorkQueue",
        {"RedrivePolicy.maxReceiveCount": within(3 * SETTINGS.max_attempts)},
    ),
    "only the work queue fills its dead letter queue": all_of(
        "DeadLetterQueue", takes_from
    ),
    "a queue polls as long as the workers do": settings(
        QUEUE, {"ReceiveMessageWaitTimeSeconds": SETTINGS.receive_wait_s}
    ),
    "a queue is encrypted in one way": all_of(
        QUEUE,
        lambda queue, _: (
            (queue.get("SqsManagedSseEnabled") is True)
            != bool(queue.get("KmsMasterKeyId"))
        ),
    ),
    "no queue is reached without tls": all_of(
        QUEUE,
        lambda queue, stack: any(
            arn.endswith(f":{queue['QueueName']}") for arn in guarded(stack, "sqs:*")
        ),
    ),
    "a table has the two keys of the code": settings(
        TABLE,
        {
            "KeySchema": [
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ]
        },
    ),
    "a table is paid by the request": settings(
        TABLE, {"BillingMode": "PAY_PER_REQUEST"}
    ),
    "a table has no index that could lag": all_of(
        TABLE, lambda table, _: not any(key.endswith("Indexes") for key in table)
    ),
    "items expire by the attribute that the code writes": settings(
        TABLE,
        {
            "TimeToLiveSpecification.AttributeName": expires_at.__name__,
            "TimeToLiveSpecification.Enabled": True,
        },
    ),
    "a table has point in time recovery": settings(
        TABLE, {"PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": True}
    ),
    # With SSEEnabled alone it has the key of AWS in the account, which KMS bills.
    "without a customer key a table has the key that costs nothing": all_of(
        TABLE,
        lambda table, stack: (
            table.get("SSESpecification", {}).get("SSEEnabled", False)
            is (stack.parameters["Encryption"] == "customer")
        ),
    ),
    "a table refuses deletion unless a parameter allows it": every(
        all_of(
            TABLE,
            lambda table, stack: (
                table.get("DeletionProtectionEnabled")
                is (stack.parameters.get("Protect", "true") == "true")
            ),
        ),
        lambda templates: iter(
            ["the default protects nothing"]
            * (templates.default("data").parameters["Protect"] != "true")
        ),
    ),
    "a bucket is closed to the public": settings(
        BUCKET,
        {
            f"PublicAccessBlockConfiguration.{setting}": True
            for setting in (
                "BlockPublicAcls",
                "BlockPublicPolicy",
                "IgnorePublicAcls",
                "RestrictPublicBuckets",
            )
        },
    ),
    "the owner of a bucket owns what is in it": settings(
        BUCKET,
        {"OwnershipControls.Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
    ),
    "a bucket keeps old versions": settings(
        BUCKET, {"VersioningConfiguration.Status": "Enabled"}
    ),
    "nothing current expires while a dead letter may point at it": all_of(
        BUCKET,
        lambda bucket, _: all(
            each["Status"] == "Enabled"
            and not {"ExpirationInDays", "ExpirationDate"} & each.keys()
            for each in lifecycle(bucket).values()
        ),
    ),
    "old versions and abandoned uploads expire": all_of(
        BUCKET,
        lambda bucket, _: (
            lifecycle(bucket)["overwritten"]["NoncurrentVersionExpiration"][
                "NoncurrentDays"
            ]
            >= 45
            and "AbortIncompleteMultipartUpload"
            in lifecycle(bucket).get("abandoned-uploads", {})
        ),
    ),
    "no bucket is reached without tls": all_of(
        BUCKET,
        lambda bucket, stack: (
            [
                f"arn:aws:s3:::{bucket['BucketName']}",
                f"arn:aws:s3:::{bucket['BucketName']}/*",
            ]
            in guarded(stack, "s3:*")
        ),
    ),
    "a bucket encrypts by default": all_of(BUCKET, encrypts),
    "with a customer key a bucket refuses other keys": all_of(
        "AWS::S3::BucketPolicy", takes_no_other_key
    ),
    "data outlives its stack": data_outlives_its_stack,
    "no update replaces or deletes data": no_update_replaces_data,
    "data is in the data stack alone": data_is_in_the_data_stack,
    "a resource has the name that the processes look for": every(
        settings("WorkQueue", {"QueueName": SETTINGS.work_queue}),
        settings("WorkQueue1", {"QueueName": SETTINGS.queue_name("gpu")}),
        settings("DeadLetterQueue", {"QueueName": SETTINGS.dead_letter_queue}),
        settings("Checkpoints", {"TableName": SETTINGS.checkpoints_table}),
        settings("DeadLetters", {"TableName": SETTINGS.dead_letters_table}),
        settings("Bucket", {"BucketName": SETTINGS.bucket(ACCOUNT, REGION)}),
    ),
    "the customer key encrypts all data": keys_used,
    "a key is rotated and that of data is deleted after a month": every(
        settings(KEY, {"EnableKeyRotation": True}),
        all_of(
            KEY,
            lambda key, stack: (
                stack.name != "data" or key.get("PendingWindowInDays") == 30
            ),
        ),
    ),
}
