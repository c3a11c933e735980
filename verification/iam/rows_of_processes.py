"""What the processes ask AWS for, and ECS in their name."""

from __future__ import annotations

from verification.iam.row import ADDRESSES, ALL, KEY, LOOKS, row

NO_ECS = "no ECS agent here; the worker's own half meets a stand-in in its tests"
NO_MODEL = "no model here; the example's adapter meets a stand-in in its tests"
BY_ECS = "ECS itself asks, before our code runs"

ORCHESTRATOR = (
    ADDRESSES,
    *LOOKS,
    row(
        "dynamodb:ConditionCheckItem GetItem PutItem Query UpdateItem",
        "checkpoints",
        "piecework_orchestrator.submit:submit",
        "the job, its chunks, and that they are all there; --wait looks at them",
    ),
    row(
        "dynamodb:Query",
        "dead-letters",
        "piecework_orchestrator.inspector:dead_letters_of",
        "submit --wait counts what died",
    ),
    row(
        "s3:PutObject",
        "payload/ manifest/",
        "piecework_orchestrator.submit:pack",
        "what is submitted, and the list of it",
    ),
    row(
        "s3:GetObject",
        "manifest/ certificate/",
        "piecework.jobs.fan_out:fan_out",
        "the chunks are written from the manifest; --wait ends with the certificate",
    ),
    row(
        "s3:GetObject",
        "inbox",
        "piecework_orchestrator.intake.manifest:object_blocks",
        "submit s3://bucket/key",
    ),
    row(
        "sqs:SendMessage",
        "work",
        "piecework.jobs.fan_out:send_chunks",
        "hands every chunk out once",
    ),
    KEY,
)
WORKER = (
    ADDRESSES,
    row(
        "sqs:ReceiveMessage",
        "work",
        "piecework_worker.receiver:Receiver.run",
        "takes chunks in hand",
    ),
    row(
        "sqs:DeleteMessage",
        "work",
        "piecework_worker.acks:AckBatcher.add",
        "lets go of messages whose chunks have ended",
    ),
    row(
        "sqs:ChangeMessageVisibility",
        "work",
        "piecework_worker.executor:hide_message",
        "keeps a message hidden as long as its chunk is in hand, or waits",
    ),
    row(
        "sqs:SendMessage",
        "work",
        "piecework_worker.executor:keep_for_next_attempt",
        "what was begun without a message, as a join is, waits for its retry as one",
    ),
    row(
        "dynamodb:ConditionCheckItem DeleteItem GetItem PutItem Query UpdateItem",
        "checkpoints",
        "piecework.store.claims:Claims",
        "claims, progress, journal, ledger, the end of the job; an ended job loses its "
        "mark of an active one, a stage without a value an older one's; and breakers",
    ),
    row(
        "dynamodb:PutItem",
        "dead-letters",
        "piecework.store.dead_letters:DeadLetters.row",
        "a dead chunk's letter and its mark; a message that is nobody's",
    ),
    row(
        "s3:GetObject",
        "calls/ effects/ manifest/ payload/ values/",
        "piecework_worker.assembly:load_state",
        "what it works on, and what was too large for a row; a join checks the list",
    ),
    row(
        "s3:PutObject",
        "artifacts/ calls/ certificate/ effects/ values/",
        "piecework.aws.objects:Objects.put_value",
        "what is too large for a row; what a join writes; what a job came to",
    ),
    row(
        "ecs:UpdateTaskProtection",
        "tasks",
        "piecework_worker.ecs:Protection",
        "asks ECS not to end it while chunks are in hand",
        NO_ECS,
    ),
    row(
        "bedrock:InvokeModel",
        "model",
        "piecework_examples.contract_review.bedrock:open_bedrock",
        "pipelines that call a model of Bedrock",
        NO_MODEL,
    ),
    KEY,
)
RECONCILER = (
    ADDRESSES,
    row(
        "sqs:SendMessage",
        "work",
        "piecework.reconciler.pass_state:PassContext.dispatch",
        "sends what no message speaks for any more",
    ),
    row(
        "sqs:DeleteMessage ReceiveMessage",
        "work-dlq",
        "piecework.reconciler.dead_letter_queue:drain",
        "empties the dead-letter queue",
    ),
    row(
        "dynamodb:ConditionCheckItem DeleteItem GetItem PutItem Query UpdateItem",
        "checkpoints",
        "piecework.reconciler.jobs:reconcile_job",
        "finishes submits and cancels, gives back what the dead held, ends jobs",
    ),
    row(
        "dynamodb:PutItem Query UpdateItem",
        "dead-letters",
        "piecework.reconciler.dead_letter_queue:DeadLetterAlarms",
        "sets messages aside; counts open letters, and notes that it gave an alarm",
    ),
    row(
        "s3:GetObject",
        "manifest/",
        "piecework.jobs.manifest:read_manifest",
        "finishes a submit from its list, and checks it at the end",
    ),
    row(
        "s3:PutObject",
        "certificate/",
        "piecework.jobs.fan_in:store_certificate",
        "what a cancelled job came to",
    ),
    KEY,
)
EXECUTION = (
    row(
        "logs:CreateLogStream PutLogEvents",
        "logs/command logs/reconciler logs/worker",
        "",
        "what the processes write",
        BY_ECS,
    ),
    row(
        "ecr:BatchCheckLayerAvailability BatchGetImage GetDownloadUrlForLayer",
        "image",
        "",
        "pulls the image",
        BY_ECS,
    ),
    row("ecr:GetAuthorizationToken", ALL, "", "names no resource", BY_ECS),
    row("secretsmanager:GetSecretValue", "secret", "", "named secrets", BY_ECS),
    row("ssm:GetParameters", "secret", "", "named parameters", BY_ECS),
)
#: What the deploy command asks itself; `deploying.py` has what CloudFormation does.
