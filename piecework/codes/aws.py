"""Codes of the AWS services that hold the jobs: SQS, DynamoDB and S3."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    Code(
        "aws.access.denied",
        ErrorClass.PERMANENT,
        "The credentials do not allow this request.",
        "Compare the role with the permissions in `infra/`, then `piecework doctor`.",
    ),
    Code(
        "aws.condition.refused",
        ErrorClass.STATE,
        "A conditional write found the record in another state than expected.",
        "Nothing: the record is read again; see it with `piecework chunks list JOB`.",
    ),
    Code(
        "aws.credentials.invalid",
        ErrorClass.PERMANENT,
        "AWS did not accept the credentials.",
        "Renew them (profile, role or `AWS_*` variables), then `piecework doctor`.",
    ),
    Code(
        "aws.credentials.missing",
        ErrorClass.PERMANENT,
        "No credentials for AWS were found.",
        "Run `piecework up` to work on this machine, or set a profile or role and "
        "then `piecework doctor`.",
    ),
    Code(
        "aws.endpoint.timeout",
        ErrorClass.TRANSIENT,
        "AWS did not answer in time.",
        "Nothing at first: it is retried; if it stays, `piecework doctor`.",
    ),
    Code(
        "aws.endpoint.unreachable",
        ErrorClass.TRANSIENT,
        "No connection to the AWS endpoint could be made.",
        "Run `piecework doctor`; on this machine, `piecework up` starts the emulator.",
    ),
    Code(
        "aws.quota.exceeded",
        ErrorClass.POLICY,
        "The account has reached a limit of this AWS service.",
        "Have the limit raised in Service Quotas, then `piecework doctor`.",
    ),
    Code(
        "aws.request.invalid",
        ErrorClass.PERMANENT,
        "AWS found the request invalid.",
        "Compare versions with `piecework doctor` and report the fault.",
    ),
    Code(
        "aws.request.rejected",
        ErrorClass.PERMANENT,
        "AWS rejected the request with a code that has no row of its own.",
        "Read `provider_code` in the envelope, then `piecework doctor`.",
    ),
    Code(
        "aws.resource.not_found",
        ErrorClass.PERMANENT,
        "A queue, table, bucket or object that should be there is absent.",
        "Run `piecework doctor`; `piecework up` or a deploy of `infra/data.yaml` "
        "creates it.",
    ),
    Code(
        "aws.service.throttled",
        ErrorClass.TRANSIENT,
        "AWS had more requests than it allows in this time.",
        "Nothing at first: it is retried; if it stays, run fewer workers.",
    ),
    Code(
        "aws.service.unavailable",
        ErrorClass.TRANSIENT,
        "The AWS service failed inside.",
        "Nothing at first: it is retried; if it stays, look at the AWS status page.",
    ),
    Code(
        "aws.transaction.conflict",
        ErrorClass.TRANSIENT,
        "Another write was under way on one of the same items.",
        "Nothing: it is retried.",
    ),
)
