"""The deploy role may do what the handlers of CloudFormation's registry declare."""

from __future__ import annotations

import pytest

from verification.iam.deploying import (
    BEYOND,
    EXCLUDED,
    STACKS,
    actions,
    declared,
    kinds,
    schema,
    spelled,
)
from verification.iam.grants import DEPLOY
from verification.iam.roles import EVERYTHING, roles
from verification.iam.template import read
from verification.iam.used import grants

KINDS = kinds()
GRANTED = {
    (g.action, g.resource)
    for g in grants("deploy", roles(**EVERYTHING)["deploy"].grants)
}
OWN = {pair for row in DEPLOY for pair in row.pairs("*")}
#: What the deploy role may do for CloudFormation, besides what its own code calls.
THEIRS = {action for action, _ in GRANTED - OWN}
#: CloudFormation and the deploy command do this by one grant.
SHARED = {"ec2:DescribeSubnets", "iam:CreateServiceLinkedRole"}
#: The features behind `EXCLUDED`: no template sets these properties.
UNSET = {
    "AWS::DynamoDB::Table": (
        "ContributorInsightsSpecification ImportSourceSpecification "
        "KinesisStreamSpecification ResourcePolicy StreamSpecification"
    ),
    "AWS::S3::Bucket": (
        "AbacStatus AccelerateConfiguration AccessControl AnalyticsConfigurations "
        "CorsConfiguration IntelligentTieringConfigurations InventoryConfigurations "
        "MetadataConfiguration MetadataTableConfiguration MetricsConfigurations "
        "NotificationConfiguration ObjectLockConfiguration ObjectLockEnabled "
        "ReplicationConfiguration WebsiteConfiguration"
    ),
    "AWS::KMS::Key": "Enabled",
    "AWS::EC2::EIP": "Address InstanceId TransferAddress",
    "AWS::EC2::NatGateway": (
        "SecondaryAllocationIds SecondaryPrivateIpAddressCount "
        "SecondaryPrivateIpAddresses"
    ),
    "AWS::EC2::Subnet": "Ipv6CidrBlock",
    "AWS::EC2::VPC": "InstanceTenancy",
    "AWS::EC2::VPCGatewayAttachment": "VpnGatewayId",
    "AWS::EC2::VPCEndpoint": "ServiceNetworkArn ServiceRegion",
    "AWS::Logs::LogGroup": (
        "BearerTokenAuthenticationEnabled DataProtectionPolicy "
        "DeletionProtectionEnabled FieldIndexPolicies ResourcePolicyDocument"
    ),
    "AWS::ApplicationAutoScaling::ScalableTarget": "RoleARN ScheduledActions",
    "AWS::ApplicationAutoScaling::ScalingPolicy": (
        "PredictiveScalingPolicyConfiguration"
    ),
    "AWS::SNS::Topic": "DataProtectionPolicy DeliveryStatusLogging",
    "AWS::SNS::Subscription": (
        "DeliveryPolicy FilterPolicy RawMessageDelivery RedrivePolicy "
        "SubscriptionRoleArn"
    ),
}
#: How the actions begin that end what holds data: queues, tables, the bucket, keys.
ENDS_DATA = {
    *("sqs:DeleteQueue", "sqs:PurgeQueue", "dynamodb:Delete", "dynamodb:BatchWrite"),
    *("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:RestoreTable"),
    *("s3:Delete", "s3:PutObject", "kms:DisableKey", "kms:DeleteAlias"),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_deploy_role_may_do_what_the_handlers_of_a_type_need(kind: str) -> None:
    assert set() == actions(kind, deletable=KINDS[kind]) - THEIRS - SHARED


def test_the_deploy_role_may_do_nothing_that_no_handler_needs() -> None:
    needed = set().union(
        *(actions(kind, deletable=gone) for kind, gone in KINDS.items())
    )
    assert set() == THEIRS - needed


@pytest.mark.parametrize("reason", EXCLUDED)
def test_an_exclusion_is_in_the_registry_and_not_granted(reason: str) -> None:
    named = spelled(EXCLUDED[reason])
    registry = set().union(
        *(declared(kind, deletable=gone) for kind, gone in KINDS.items())
    )
    assert set() == named - registry
    assert set() == named & THEIRS


@pytest.mark.parametrize("kind", UNSET)
def test_no_template_sets_what_an_exclusion_says_is_not_there(kind: str) -> None:
    unset = set(UNSET[kind].split())
    assert set() == unset - set(schema(kind)["properties"])
    for stack in STACKS:
        for name, resource in read(stack)["Resources"].items():
            if resource["Type"] == kind:
                assert set() == unset & set(resource["Properties"]), name


def test_what_is_asked_beyond_the_handlers_is_not_declared_by_them() -> None:
    for kind, words in BEYOND.items():
        assert set() == spelled(words) & declared(kind, deletable=True), kind


def test_the_deploy_role_may_end_nothing_that_holds_data() -> None:
    assert [] == sorted(a for a in THEIRS if a.startswith(tuple(ENDS_DATA)))
    stays = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue"}
    assert dict.fromkeys(stays, False) == {kind: KINDS[kind] for kind in stays}
