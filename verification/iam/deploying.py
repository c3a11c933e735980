"""What CloudFormation calls, in the name of the deployer, for each type of resource.

The handlers of a type declare their permissions in CloudFormation's registry. cfn-lint
brings the schemas of the registry with it. `EXCLUDED` has what the handlers name for
features that our templates do not use. `BEYOND` has what else AWS asks for. A test
holds that the deploy role's policies are these actions and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from verification.iam.template import read

SCHEMAS = files("cfnlint") / "data" / "schemas"
#: The stacks that the deploy role carries out.
STACKS = ("data", "network", "service", "scaling", "alarms", "triggers")
#: What the handlers name for what our templates do not do, by reason.
EXCLUDED = {
    "deletes data or hands it over": (
        "dynamodb:BatchWriteItem DeleteItem GetItem PutItem Query Scan UpdateItem "
        "s3:DeleteObject GetObject GetObjectMetadata PutObjectAcl"
    ),
    "no table has replicas": "dynamodb:AssociateTableReplica CreateTableReplica",
    "no table is imported": (
        "dynamodb:DescribeImport ImportTable "
        "logs:CreateLogStream DescribeLogStreams PutLogEvents"
    ),
    "no table feeds Kinesis": (
        "dynamodb:DisableKinesisStreamingDestination "
        "EnableKinesisStreamingDestination UpdateKinesisStreamingDestination "
        "kinesis:DescribeStream PutRecords"
    ),
    "no table has a policy or Contributor Insights": (
        "dynamodb:DeleteResourcePolicy PutResourcePolicy UpdateContributorInsights"
    ),
    "the bucket keeps its encryption and its lifecycle": (
        "s3:DeleteBucketEncryption DeleteBucketLifecycle"
    ),
    "the bucket's owner owns every object: no access lists, no attributes for access": (
        "s3:PutBucketAbac PutBucketAcl"
    ),
    "the bucket is no website, and no browser reads it": (
        "s3:DeleteBucketCors DeleteBucketWebsite PutBucketCORS PutBucketWebsite"
    ),
    "the bucket is not replicated or accelerated, and does not notify": (
        "s3:DeleteBucketReplication PutAccelerateConfiguration PutBucketNotification "
        "PutBucketReplication PutReplicationConfiguration"
    ),
    "the bucket has no object lock": (
        "s3:PutBucketObjectLockConfiguration PutObjectLockConfiguration"
    ),
    "the bucket has no analytics, inventory, metrics or tiers": (
        "s3:DeleteBucketAnalyticsConfiguration DeleteBucketMetricsConfiguration "
        "PutAnalyticsConfiguration PutIntelligentTieringConfiguration "
        "PutInventoryConfiguration PutMetricsConfiguration"
    ),
    "the bucket has no metadata tables": (
        "s3:CreateBucketMetadataTableConfiguration "
        "DeleteBucketMetadataTableConfiguration "
        "UpdateBucketMetadataAnnotationTableConfiguration "
        "UpdateBucketMetadataInventoryTableConfiguration "
        "UpdateBucketMetadataJournalTableConfiguration "
        "s3tables:CreateNamespace CreateTable CreateTableBucket GetTable "
        "GetTableMetadataLocation PutTableBucketPolicy PutTableEncryption "
        "PutTablePolicy UpdateTableMetadataLocation"
    ),
    "an administrator creates keys": "kms:CreateKey",
    "a key stays enabled and rotates": "kms:DisableKey DisableKeyRotation EnableKey",
    "an address goes to a NAT gateway alone, and no account transfers one": (
        "ec2:AcceptAddressTransfer AssociateAddress"
    ),
    "a NAT gateway has one address": (
        "ec2:AssignPrivateNatGatewayAddress AssociateNatGatewayAddress "
        "DisassociateNatGatewayAddress UnassignPrivateNatGatewayAddress"
    ),
    "no subnet gets further ranges of addresses": (
        "ec2:AssociateSubnetCidrBlock DisassociateSubnetCidrBlock"
    ),
    "the VPC has no encryption control, and keeps its tenancy": (
        "ec2:CreateVpcEncryptionControl ModifyVpcTenancy"
    ),
    "the VPC has no VPN gateway": "ec2:AttachVpnGateway DetachVpnGateway",
    "no endpoint belongs to a service network or to another region": (
        "vpc-lattice:CreateServiceNetworkVpcEndpointAssociation "
        "DescribeServiceNetworkVpcEndpointAssociation vpce:AllowMultiRegion"
    ),
    "a log group has no policy, no index, no bearer tokens and no own protection": (
        "logs:DeleteIndexPolicy DeleteResourcePolicy PutBearerTokenAuthentication "
        "PutDataProtectionPolicy PutIndexPolicy PutLogGroupDeletionProtection "
        "PutResourcePolicy"
    ),
    "a log group keeps its retention": "logs:DeleteRetentionPolicy",
    "no log group delivers elsewhere": "firehose:TagDeliveryStream s3:REST.PUT.OBJECT",
    "a cluster leaves the settings of the account alone": (
        "ecs:PutAccountSetting PutAccountSettingDefault"
    ),
    "nothing scales by a schedule": (
        "application-autoscaling:DeleteScheduledAction PutScheduledAction"
    ),
    "nothing scales by a forecast": "cloudwatch:GetMetricData",
    "nothing scales a function": (
        "lambda:DeleteProvisionedConcurrencyConfig GetProvisionedConcurrencyConfig "
        "PutProvisionedConcurrencyConfig"
    ),
    "the topic has no data protection policy, a subscription no settings": (
        "sns:PutDataProtectionPolicy SetSubscriptionAttributes"
    ),
}
#: What AWS asks for although the handlers of the type do not name it.
BEYOND = {
    # `Fn::GetAZs` asks for it.
    "AWS::EC2::Subnet": "ec2:DescribeAvailabilityZones",
    # EC2 gives the endpoint the service's own name.
    "AWS::EC2::VPCEndpoint": "route53:AssociateVPCWithHostedZone",
    # DynamoDB calls KMS in the caller's name for a table with a key of the account.
    "AWS::DynamoDB::Table": (
        "kms:GenerateDataKey GenerateDataKeyWithoutPlaintext ReEncryptFrom ReEncryptTo"
    ),
}


def date() -> str:
    """Return the day of the schemas, such as 2026-10-20."""
    found = json.loads((SCHEMAS / "version.json").read_text("utf-8"))
    return str(found["schema_date"]).partition("T")[0]


def kinds(stacks: Iterable[str] = STACKS) -> dict[str, bool]:
    """Return the types of some stacks, and whether a deployment may delete one."""
    found: dict[str, bool] = {}
    for stack in stacks:
        for resource in read(stack)["Resources"].values():
            kind = resource["Type"]
            deletable = resource.get("DeletionPolicy") != "Retain"
            found[kind] = found.get(kind, False) or deletable
    return found


@cache
def schema(kind: str) -> Mapping[str, Any]:
    """Return the registry's schema of a type."""
    names = json.loads((SCHEMAS / "providers" / "us-east-1.json").read_text("utf-8"))
    path = SCHEMAS / "resources" / f"{names[kind]}.json"
    found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def declared(kind: str, *, deletable: bool) -> set[str]:
    """Return the permissions of the handlers that CloudFormation calls for a type."""
    handlers = schema(kind)["handlers"]
    called = ["create", "read", "update", *(["delete"] if deletable else [])]
    return {
        action
        for name in called
        if name in handlers
        for action in handlers[name]["permissions"]
    }


def actions(kind: str, *, deletable: bool) -> set[str]:
    """Return the actions that the deploy role needs for a type."""
    needed = declared(kind, deletable=deletable) | spelled(BEYOND.get(kind, ""))
    return needed - excluded()


def excluded() -> set[str]:
    """Return the actions of the handlers that our templates do not need."""
    return spelled(" ".join(EXCLUDED.values()))


def spelled(words: str) -> set[str]:
    """Return actions in full; a word without a service has the service before it."""
    found, service = set(), ""
    for word in words.split():
        named, _, action = word.rpartition(":")
        service = named or service
        found.add(f"{service}:{action}")
    return found
