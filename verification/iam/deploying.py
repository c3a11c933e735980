"""What CloudFormation does, in the name of who deploys, for each type of resource.

Written after AWS's reference of actions; nothing here can prove it, for no emulator
asks. A test holds that every type of our templates is here, and that the deploy role's
policies are these actions and no others.
"""

from __future__ import annotations

#: Actions by type, those of a service behind its name; none deletes what holds data.
TYPES = {
    "AWS::SQS::Queue": (
        "sqs:CreateQueue GetQueueAttributes GetQueueUrl ListQueueTags "
        "SetQueueAttributes TagQueue UntagQueue"
    ),
    "AWS::SQS::QueuePolicy": "sqs:SetQueueAttributes",
    "AWS::DynamoDB::Table": (
        "dynamodb:CreateTable DescribeContinuousBackups DescribeContributorInsights "
        "DescribeKinesisStreamingDestination DescribeTable DescribeTimeToLive "
        "GetResourcePolicy ListTagsOfResource UpdateContinuousBackups UpdateTable "
        "UpdateTimeToLive TagResource UntagResource kms:CreateGrant Decrypt "
        "DescribeKey"
    ),
    "AWS::S3::Bucket": (
        "s3:CreateBucket GetBucketLogging GetBucketOwnershipControls "
        "GetBucketPublicAccessBlock GetBucketTagging GetBucketVersioning "
        "GetEncryptionConfiguration GetLifecycleConfiguration ListBucket "
        "PutBucketLogging PutBucketOwnershipControls PutBucketPublicAccessBlock "
        "PutBucketTagging PutBucketVersioning PutEncryptionConfiguration "
        "PutLifecycleConfiguration"
    ),
    "AWS::S3::BucketPolicy": "s3:GetBucketPolicy PutBucketPolicy",
    "AWS::KMS::Key": (
        "kms:CreateKey DescribeKey EnableKeyRotation GetKeyPolicy "
        "GetKeyRotationStatus ListResourceTags PutKeyPolicy ScheduleKeyDeletion "
        "UpdateKeyDescription TagResource UntagResource"
    ),
    "AWS::KMS::Alias": "kms:CreateAlias ListAliases UpdateAlias",
    "AWS::EC2::VPC": (
        "ec2:CreateVpc DeleteVpc DescribeNetworkAcls DescribeVpcAttribute "
        "DescribeVpcs ModifyVpcAttribute CreateTags DeleteTags"
    ),
    "AWS::EC2::Subnet": (
        "ec2:CreateSubnet DeleteSubnet DescribeAvailabilityZones DescribeSubnets "
        "ModifySubnetAttribute"
    ),
    "AWS::EC2::RouteTable": (
        "ec2:CreateRouteTable DeleteRouteTable DescribeRouteTables"
    ),
    "AWS::EC2::Route": "ec2:CreateRoute DeleteRoute DescribeRouteTables ReplaceRoute",
    "AWS::EC2::SubnetRouteTableAssociation": (
        "ec2:AssociateRouteTable DescribeRouteTables DisassociateRouteTable"
    ),
    "AWS::EC2::InternetGateway": (
        "ec2:CreateInternetGateway DeleteInternetGateway DescribeInternetGateways"
    ),
    "AWS::EC2::VPCGatewayAttachment": (
        "ec2:AttachInternetGateway DescribeInternetGateways DetachInternetGateway"
    ),
    "AWS::EC2::NatGateway": (
        "ec2:CreateNatGateway DeleteNatGateway DescribeNatGateways"
    ),
    "AWS::EC2::EIP": "ec2:AllocateAddress DescribeAddresses ReleaseAddress",
    "AWS::EC2::SecurityGroup": (
        "ec2:AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress "
        "CreateSecurityGroup DeleteSecurityGroup DescribeSecurityGroupRules "
        "DescribeSecurityGroups RevokeSecurityGroupEgress RevokeSecurityGroupIngress"
    ),
    "AWS::EC2::VPCEndpoint": (
        "ec2:CreateVpcEndpoint DeleteVpcEndpoints DescribeNetworkInterfaces "
        "DescribePrefixLists DescribeVpcEndpoints ModifyVpcEndpoint"
    ),
    "AWS::EC2::FlowLog": "ec2:CreateFlowLogs DeleteFlowLogs DescribeFlowLogs",
    "AWS::Logs::LogGroup": (
        "logs:AssociateKmsKey CreateLogGroup DeleteLogGroup DescribeLogGroups "
        "DisassociateKmsKey ListTagsForResource PutRetentionPolicy TagResource "
        "UntagResource"
    ),
    "AWS::ECS::Cluster": (
        "ecs:CreateCluster DeleteCluster DescribeClusters PutClusterCapacityProviders "
        "UpdateCluster UpdateClusterSettings TagResource UntagResource"
    ),
    "AWS::ECS::TaskDefinition": (
        "ecs:DeregisterTaskDefinition DescribeTaskDefinition RegisterTaskDefinition "
        "iam:PassRole"
    ),
    "AWS::ECS::Service": (
        "ecs:CreateService DeleteService DescribeServices UpdateService"
    ),
    "AWS::ApplicationAutoScaling::ScalableTarget": (
        "application-autoscaling:DeregisterScalableTarget DescribeScalableTargets "
        "ListTagsForResource RegisterScalableTarget TagResource UntagResource"
    ),
    "AWS::ApplicationAutoScaling::ScalingPolicy": (
        "application-autoscaling:DeleteScalingPolicy DescribeScalingPolicies "
        "PutScalingPolicy"
    ),
    "AWS::CloudWatch::Alarm": (
        "cloudwatch:DeleteAlarms DescribeAlarms ListTagsForResource PutMetricAlarm "
        "TagResource UntagResource"
    ),
    "AWS::CloudWatch::CompositeAlarm": (
        "cloudwatch:DeleteAlarms DescribeAlarms PutCompositeAlarm"
    ),
    "AWS::CloudWatch::Dashboard": (
        "cloudwatch:DeleteDashboards GetDashboard PutDashboard"
    ),
    "AWS::SNS::Topic": (
        "sns:CreateTopic DeleteTopic GetTopicAttributes ListSubscriptionsByTopic "
        "ListTagsForResource SetTopicAttributes TagResource UntagResource"
    ),
    "AWS::SNS::TopicPolicy": "sns:SetTopicAttributes",
    "AWS::SNS::Subscription": "sns:Subscribe Unsubscribe",
}


def actions(types: set[str]) -> set[str]:
    """Return the actions that resources of some types take."""
    found = set()
    for kind in types:
        service = ""
        for word in TYPES[kind].split():
            named, _, action = word.rpartition(":")
            service = named or service
            found.add(f"{service}:{action}")
    return found
