"""What operators and deployers ask AWS for."""

from __future__ import annotations

from verification.iam.row import ADDRESSES, KEY, LOOKS, NO_KMS, row

ONE_STACK = "the emulator does not take this stack; another one stands for it"

OPERATOR_READ = (
    ADDRESSES,
    *LOOKS,
    row(
        "dynamodb:GetItem Query",
        "checkpoints",
        "piecework_orchestrator.inspector:job_document",
        "jobs and chunks",
    ),
    row(
        "dynamodb:Query",
        "dead-letters",
        "piecework_orchestrator.cli.views.dead_letters:dead_letter_document",
        "the dead letters of a job",
    ),
    row(
        "dynamodb:Scan",
        "dead-letters",
        "piecework.store.dead_letters:DeadLetters.all",
        "dlq list, stats and export over all jobs",
    ),
    row(
        "s3:GetObject",
        "artifacts/ certificate/ values/",
        "piecework_orchestrator.cli.results:ended_chunks",
        "results, and what the join wrote",
    ),
    row(
        "s3:GetObject",
        "payload/",
        "piecework_orchestrator.cli.views.dead_letters:payload_facts",
        "dlq show and dlq export --payload, where operators may",
    ),
    row("kms:Decrypt", "key", KEY.by, KEY.why, NO_KMS),
)
OPERATOR_WRITE = (
    ADDRESSES,
    row(
        "dynamodb:ConditionCheckItem DeleteItem GetItem PutItem Query UpdateItem",
        "checkpoints",
        "piecework_orchestrator.resume:reopen",
        "cancels, resumes, redrives; an ended job loses its mark of an active one",
    ),
    row(
        "dynamodb:DeleteItem GetItem Query UpdateItem",
        "dead-letters",
        "piecework.store.dead_letters:DeadLetters.discard",
        "closes letters, and takes away their marks of open ones",
    ),
    row(
        "dynamodb:Scan",
        "dead-letters",
        "piecework.store.dead_letters:DeadLetters.all",
        "redrives and discards over all jobs",
    ),
    row(
        "s3:GetObject",
        "manifest/",
        "piecework.jobs.fan_in:finish_cancel",
        "what of a cancelled job was never written; what a resumed one has to send",
    ),
    row(
        "s3:GetObject",
        "payload/",
        "piecework_orchestrator.redrive:read_payload",
        "what dlq redrive --patch patches, where operators may",
    ),
    row(
        "s3:PutObject",
        "certificate/ effects/ payload/",
        "piecework_orchestrator.redrive:store_payload",
        "what a cancelled job came to; a redrive's new payload; what somebody knows "
        "that an effect in doubt came to",
    ),
    row(
        "sqs:SendMessage",
        "work",
        "piecework_orchestrator.resume:reopen",
        "hands out what was taken up again",
    ),
    KEY,
)
#: What the deploy command asks itself; `deploying.py` has what CloudFormation does.
DEPLOY = (
    row(
        "cloudformation:CreateChangeSet DeleteChangeSet DescribeChangeSet "
        "DescribeStackEvents DescribeStacks GetTemplate ListStackResources",
        "stacks",
        "piecework_orchestrator.infra.change_set:create_change_set",
        "looks at every stack, and proposes changes",
    ),
    row(
        "cloudformation:ExecuteChangeSet",
        "stack/data",
        "piecework_orchestrator.infra.change_set:execute_change_set",
        "carries changes out",
    ),
    row(
        "cloudformation:ExecuteChangeSet",
        "stack/alarms stack/network stack/scaling stack/service",
        "piecework_orchestrator.infra.change_set:execute_change_set",
        "carries changes out, but for the roles'",
        ONE_STACK,
    ),
    row(
        "cloudformation:DeleteStack",
        "stack/service",
        "piecework_orchestrator.infra.change_set:delete_change_set",
        "diff and destroy, but for the data and the roles",
    ),
    row(
        "cloudformation:DeleteStack",
        "stack/alarms stack/network stack/scaling",
        "piecework_orchestrator.infra.destroy:destroy",
        "diff and destroy",
        ONE_STACK,
    ),
    row(
        "cloudformation:SetStackPolicy UpdateTerminationProtection",
        "stack/data",
        "piecework_orchestrator.infra.deploy:protect_stack",
        "no update replaces what holds data, and no delete is by mistake",
    ),
    row(
        "dynamodb:Query",
        "checkpoints",
        "piecework_orchestrator.infra.destroy:running_jobs",
        "destroy: which jobs are active?",
    ),
)
