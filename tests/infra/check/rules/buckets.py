"""The bucket: closed, versioned, encrypted, and keeping whatever is current."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.infra.check.render import Stack
from tests.infra.check.rules.queues import refuses_plain_text
from tests.infra.check.rules.rule import rule
from tests.infra.check.templates import Templates

EXPIRES_CURRENT = {"ExpirationInDays", "ExpirationDate"}
CLOSED = {
    "BlockPublicAcls": True,
    "BlockPublicPolicy": True,
    "IgnorePublicAcls": True,
    "RestrictPublicBuckets": True,
}


def buckets(templates: Templates) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
    """Yield every bucket of every variant."""
    for stack in templates.stacks():
        for name, bucket in stack.of("AWS::S3::Bucket"):
            yield stack, name, bucket


@rule
def a_bucket_is_closed_to_the_public(templates: Templates) -> Iterator[str]:
    for _, name, bucket in buckets(templates):
        if bucket.get("PublicAccessBlockConfiguration") != CLOSED:
            yield name


@rule
def the_owner_of_a_bucket_owns_what_is_in_it(templates: Templates) -> Iterator[str]:
    for _, name, bucket in buckets(templates):
        rules = bucket.get("OwnershipControls", {}).get("Rules")
        if rules != [{"ObjectOwnership": "BucketOwnerEnforced"}]:
            yield name


@rule
def a_bucket_keeps_what_is_overwritten(templates: Templates) -> Iterator[str]:
    for _, name, bucket in buckets(templates):
        if bucket.get("VersioningConfiguration") != {"Status": "Enabled"}:
            yield name


@rule
def nothing_current_expires_while_a_dead_letter_may_point_at_it(
    templates: Templates,
) -> Iterator[str]:
    for _, name, bucket in buckets(templates):
        for each in bucket["LifecycleConfiguration"]["Rules"]:
            if EXPIRES_CURRENT & each.keys() or each["Status"] != "Enabled":
                yield f"{name}: {each['Id']}"


@rule
def old_versions_and_abandoned_uploads_go_in_the_end(
    templates: Templates,
) -> Iterator[str]:
    for _, name, bucket in buckets(templates):
        rules = {each["Id"]: each for each in bucket["LifecycleConfiguration"]["Rules"]}
        old = rules.get("overwritten", {}).get("NoncurrentVersionExpiration", {})
        uploads = rules.get("abandoned-uploads", {})
        if old.get("NoncurrentDays", 0) < 45:
            yield f"{name}: {old}"
        if "AbortIncompleteMultipartUpload" not in uploads:
            yield f"{name}: uploads stay"


@rule
def no_bucket_is_reached_without_tls(templates: Templates) -> Iterator[str]:
    for stack, name, bucket in buckets(templates):
        arn = f"arn:aws:s3:::{bucket['BucketName']}"
        guarded = [
            statement["Resource"]
            for _, policy in stack.of("AWS::S3::BucketPolicy")
            for statement in policy["PolicyDocument"]["Statement"]
            if refuses_plain_text(statement, "s3:*")
        ]
        if [arn, f"{arn}/*"] not in guarded:
            yield name


@rule
def a_bucket_encrypts_what_comes_without_a_word(templates: Templates) -> Iterator[str]:
    for stack, name, bucket in buckets(templates):
        (each,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        own = stack.parameters["Encryption"] == "customer"
        by = each["ServerSideEncryptionByDefault"]
        if by["SSEAlgorithm"] != ("aws:kms" if own else "AES256"):
            yield f"{name}: {by}"
        if own and each.get("BucketKeyEnabled") is not True:
            yield f"{name}: each object asks the key"


@rule
def with_a_key_of_ones_own_a_bucket_takes_no_other(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("data"):
        refused = {
            key
            for _, policy in stack.of("AWS::S3::BucketPolicy")
            for statement in policy["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Deny" and statement["Action"] == "s3:PutObject"
            for key in statement["Condition"]["StringNotEquals"]
        }
        own = stack.parameters["Encryption"] == "customer"
        expected = {
            "s3:x-amz-server-side-encryption",
            "s3:x-amz-server-side-encryption-aws-kms-key-id",
        }
        if own and refused != expected:
            yield f"only {sorted(refused)} are looked at"
