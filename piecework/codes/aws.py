"""Codes of the AWS services that store the jobs: SQS, DynamoDB and S3."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    Code(
        "aws.access.denied",
        ErrorClass.PERMANENT,
        "The credentials do not allow this request.",
        "Compare the role with the permissions in `infra/`, then run `piecework "
        "doctor`.",
    ),
    Code(
        "aws.condition.refused",
        ErrorClass.STATE,
        "A conditional write found the record in an unexpected state.",
        "Do nothing: the record is read again. `piecework chunks list JOB` shows it.",
    ),
    Code(
        "aws.credentials.invalid",
        ErrorClass.PERMANENT,
        "AWS did not accept the credentials.",
        "Renew them (profile, role or `AWS_*` variables), then run `piecework doctor`.",
    ),
    Code(
        "aws.credentials.missing",
        ErrorClass.PERMANENT,
        "No credentials for AWS were found.",
        "To work on this machine, run `piecework up`. Otherwise set a profile or "
        "a role, then run `piecework doctor`.",
    ),
    Code(
        "aws.endpoint.timeout",
        ErrorClass.TRANSIENT,
        "AWS did not answer in time.",
        "Wait: the request is retried. If the error persists, run `piecework doctor`.",
    ),
    Code(
        "aws.endpoint.unreachable",
        ErrorClass.TRANSIENT,
        "The connection to the AWS endpoint failed.",
        "Run `piecework doctor`. On this machine, `piecework up` starts the emulator.",
    ),
    Code(
        "aws.quota.exceeded",
        ErrorClass.POLICY,
        "The account has reached a limit of this AWS service.",
        "Raise the limit in Service Quotas, then run `piecework doctor`.",
    ),
    Code(
        "aws.request.invalid",
        ErrorClass.PERMANENT,
        "AWS found the request invalid.",
        "Compare the versions with `piecework doctor`, and report the error.",
    ),
    Code(
        "aws.request.rejected",
        ErrorClass.PERMANENT,
        "AWS rejected the request with a code that is not in this table.",
        "Read `provider_code` in the envelope, then run `piecework doctor`.",
    ),
    Code(
        "aws.resource.not_found",
        ErrorClass.PERMANENT,
        "A queue, table, bucket or object does not exist.",
        "Run `piecework doctor`. `piecework up` or a deployment of "
        "`infra/data.yaml` creates the resources.",
    ),
    Code(
        "aws.service.throttled",
        ErrorClass.TRANSIENT,
        "The AWS service received more requests than it allows.",
        "Wait: the request is retried. If the error persists, run fewer workers.",
    ),
    Code(
        "aws.service.unavailable",
        ErrorClass.TRANSIENT,
        "The AWS service had an internal failure.",
        "Wait: the request is retried. If the error persists, check the AWS "
        "status page.",
    ),
    Code(
        "aws.transaction.conflict",
        ErrorClass.TRANSIENT,
        "Another write to one of the same items was in progress.",
        "Do nothing: the write is retried.",
    ),
)
