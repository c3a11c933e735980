"""List the permissions that each AWS operation of our code needs.

A batch needs the permission of its single form. A transaction needs that of each
member, and has none itself. `HeadBucket` needs the permission to list.
"""

from __future__ import annotations

#: The permissions by service and operation.
NEEDS: dict[str, dict[str, frozenset[str]]] = {
    "sqs": {
        "GetQueueUrl": frozenset({"sqs:GetQueueUrl"}),
        "GetQueueAttributes": frozenset({"sqs:GetQueueAttributes"}),
        "ReceiveMessage": frozenset({"sqs:ReceiveMessage"}),
        "SendMessageBatch": frozenset({"sqs:SendMessage"}),
        "DeleteMessageBatch": frozenset({"sqs:DeleteMessage"}),
        "ChangeMessageVisibilityBatch": frozenset({"sqs:ChangeMessageVisibility"}),
    },
    "dynamodb": {
        "DeleteItem": frozenset({"dynamodb:DeleteItem"}),
        "GetItem": frozenset({"dynamodb:GetItem"}),
        "BatchGetItem": frozenset({"dynamodb:BatchGetItem"}),
        "PutItem": frozenset({"dynamodb:PutItem"}),
        "UpdateItem": frozenset({"dynamodb:UpdateItem"}),
        "Query": frozenset({"dynamodb:Query"}),
        "Scan": frozenset({"dynamodb:Scan"}),
        "DescribeTable": frozenset({"dynamodb:DescribeTable"}),
        "BatchExecuteStatement": frozenset({"dynamodb:PartiQLInsert"}),
        "BatchWriteItem": frozenset({"dynamodb:BatchWriteItem"}),
        "TransactWriteItems": frozenset(
            {
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
                "dynamodb:DeleteItem",
                "dynamodb:ConditionCheckItem",
            }
        ),
    },
    "s3": {
        "PutObject": frozenset({"s3:PutObject"}),
        "GetObject": frozenset({"s3:GetObject"}),
        "ListObjectsV2": frozenset({"s3:ListBucket"}),
        "ListObjectVersions": frozenset({"s3:ListBucketVersions"}),
        # Each deletion names a version.
        "DeleteObject": frozenset({"s3:DeleteObjectVersion"}),
    },
    "ec2": {"DescribeSubnets": frozenset({"ec2:DescribeSubnets"})},
    "service-quotas": {"GetServiceQuota": frozenset({"servicequotas:GetServiceQuota"})},
    "cloudformation": {
        name: frozenset({f"cloudformation:{name}"})
        for name in (
            "CreateChangeSet",
            "DeleteChangeSet",
            "DeleteStack",
            "DescribeChangeSet",
            "DescribeStackEvents",
            "DescribeStacks",
            "ExecuteChangeSet",
            "GetTemplate",
            "ListStackResources",
            "SetStackPolicy",
            "UpdateTerminationProtection",
        )
    },
    "iam": {
        name: frozenset({f"iam:{name}"})
        for name in ("CreateServiceLinkedRole", "GetRole")
    },
    # It needs no permission.
    "sts": {"GetCallerIdentity": frozenset()},
}
#: The members of a transaction.
MEMBERS = {
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "ConditionCheck": "dynamodb:ConditionCheckItem",
}
