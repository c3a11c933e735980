"""What a service says of a resource, asked of the service and not of CloudFormation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Client: TypeAlias = Callable[[str], Any]
#: Asks about one resource: the clients, its physical id, its properties.
Reading: TypeAlias = Callable[[Client, str, dict[str, Any]], list[Any]]


def queue(client: Client, url: str, _: dict[str, Any]) -> list[Any]:
    sqs = client("sqs")
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    tags = sqs.list_queue_tags(QueueUrl=url).get("Tags", {})
    return [{"QueueName": url.rsplit("/", 1)[-1]}, attributes, tags]


def queue_policy(client: Client, _: str, given: dict[str, Any]) -> list[Any]:
    sqs = client("sqs")
    return [
        {"Queues": [url]}
        | sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
        for url in given["Queues"]
    ]


def table(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    dynamodb = client("dynamodb")
    described = dynamodb.describe_table(TableName=name)["Table"]
    return [
        described,
        dynamodb.describe_time_to_live(TableName=name),
        dynamodb.describe_continuous_backups(TableName=name),
        dynamodb.list_tags_of_resource(ResourceArn=described["TableArn"]),
    ]


def bucket(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    s3 = client("s3")
    asked = (
        s3.get_public_access_block,
        s3.get_bucket_ownership_controls,
        s3.get_bucket_versioning,
        s3.get_bucket_encryption,
        s3.get_bucket_lifecycle_configuration,
        s3.get_bucket_logging,
        s3.get_bucket_tagging,
    )
    return [{"BucketName": name}, *(said(ask, Bucket=name) for ask in asked)]


def bucket_policy(client: Client, _: str, given: dict[str, Any]) -> list[Any]:
    name = given["Bucket"]
    return [{"Bucket": name}, said(client("s3").get_bucket_policy, Bucket=name)]


def key(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    kms = client("kms")
    return [
        kms.describe_key(KeyId=name),
        {"KeyPolicy": kms.get_key_policy(KeyId=name, PolicyName="default")["Policy"]},
        kms.get_key_rotation_status(KeyId=name),
        kms.list_resource_tags(KeyId=name),
    ]


def key_alias(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    aliases = client("kms").list_aliases()["Aliases"]
    return [alias for alias in aliases if alias["AliasName"] == name]


def vpc(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    ec2 = client("ec2")
    return [
        ec2.describe_vpcs(VpcIds=[name]),
        *(
            ec2.describe_vpc_attribute(VpcId=name, Attribute=attribute)
            for attribute in ("enableDnsSupport", "enableDnsHostnames")
        ),
    ]


def of_ec2(operation: str, ids: str) -> Reading:
    """Return how a kind of EC2 is asked about, by its id."""

    def ask(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
        return [getattr(client("ec2"), operation)(**{ids: [name]})]

    return ask


def routes(client: Client, _: str, given: dict[str, Any]) -> list[Any]:
    tables = [given["RouteTableId"]]
    return [client("ec2").describe_route_tables(RouteTableIds=tables)]


def gateway_attachment(client: Client, _: str, given: dict[str, Any]) -> list[Any]:
    gateways = [given["InternetGatewayId"]]
    return [client("ec2").describe_internet_gateways(InternetGatewayIds=gateways)]


def cluster(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    include = ["SETTINGS", "TAGS", "CONFIGURATIONS"]
    return [client("ecs").describe_clusters(clusters=[name], include=include)]


def task(client: Client, arn: str, _: dict[str, Any]) -> list[Any]:
    ecs = client("ecs")
    return [ecs.describe_task_definition(taskDefinition=arn, include=["TAGS"])]


def service(client: Client, arn: str, given: dict[str, Any]) -> list[Any]:
    (found,) = client("ecs").describe_services(
        cluster=given["Cluster"], services=[arn], include=["TAGS"]
    )["services"]
    return [found]


def log_group(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    logs = client("logs")
    groups = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    tags = logs.list_tags_log_group(logGroupName=name)
    return [*(each for each in groups if each["logGroupName"] == name), tags]


def role(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    iam = client("iam")
    attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    arns = {"ManagedPolicyArns": [each["PolicyArn"] for each in attached]}
    return [iam.get_role(RoleName=name), arns]


def managed_policy(client: Client, arn: str, _: dict[str, Any]) -> list[Any]:
    iam = client("iam")
    policy = iam.get_policy(PolicyArn=arn)["Policy"]
    version = policy["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=arn, VersionId=version)
    return [policy, {"PolicyDocument": document["PolicyVersion"]["Document"]}]


def topic(client: Client, arn: str, _: dict[str, Any]) -> list[Any]:
    sns = client("sns")
    return [
        {"TopicName": arn.rsplit(":", 1)[-1]},
        sns.get_topic_attributes(TopicArn=arn),
        sns.list_tags_for_resource(ResourceArn=arn),
        sns.list_subscriptions_by_topic(TopicArn=arn),
    ]


def topic_policy(client: Client, _: str, given: dict[str, Any]) -> list[Any]:
    sns = client("sns")
    return [
        {"Topics": [arn]} | sns.get_topic_attributes(TopicArn=arn)
        for arn in given["Topics"]
    ]


def alarm(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    return [client("cloudwatch").describe_alarms(AlarmNames=[name])]


def dashboard(client: Client, name: str, _: dict[str, Any]) -> list[Any]:
    return [client("cloudwatch").get_dashboard(DashboardName=name)]


def said(ask: Callable[..., Any], **given: str) -> Any:
    """Ask; a service that knows of no such setting says so with an error."""
    from botocore.exceptions import ClientError

    try:
        return ask(**given)
    except ClientError:
        return {}


READINGS: dict[str, Reading] = {
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::Dashboard": dashboard,
    "AWS::DynamoDB::Table": table,
    "AWS::EC2::InternetGateway": of_ec2(
        "describe_internet_gateways", "InternetGatewayIds"
    ),
    "AWS::EC2::Route": routes,
    "AWS::EC2::RouteTable": of_ec2("describe_route_tables", "RouteTableIds"),
    "AWS::EC2::SecurityGroup": of_ec2("describe_security_groups", "GroupIds"),
    "AWS::EC2::Subnet": of_ec2("describe_subnets", "SubnetIds"),
    "AWS::EC2::SubnetRouteTableAssociation": routes,
    "AWS::EC2::VPC": vpc,
    "AWS::EC2::VPCEndpoint": of_ec2("describe_vpc_endpoints", "VpcEndpointIds"),
    "AWS::EC2::VPCGatewayAttachment": gateway_attachment,
    "AWS::ECS::Cluster": cluster,
    "AWS::ECS::Service": service,
    "AWS::ECS::TaskDefinition": task,
    "AWS::IAM::ManagedPolicy": managed_policy,
    "AWS::IAM::Role": role,
    "AWS::KMS::Alias": key_alias,
    "AWS::KMS::Key": key,
    "AWS::Logs::LogGroup": log_group,
    "AWS::S3::Bucket": bucket,
    "AWS::S3::BucketPolicy": bucket_policy,
    "AWS::SNS::Topic": topic,
    "AWS::SNS::TopicPolicy": topic_policy,
    "AWS::SQS::Queue": queue,
    "AWS::SQS::QueuePolicy": queue_policy,
}
