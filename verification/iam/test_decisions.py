"""Who is let in and who is not: role, action, resource, tenant, key, TLS; each a row.

`Tenant` is what the roles were given: every tenant, one, or that of the session's tag.
"""

from __future__ import annotations

from verification.iam.evaluate import Decision, Request, decide
from verification.iam.grants import BUCKET, PLACES
from verification.iam.roles import EVERYTHING, resource_statements, roles

YES, NO, NEVER = Decision.ALLOWED, Decision.NOT_ALLOWED, Decision.FORBIDDEN
TAG = "${aws:PrincipalTag/tenant}"
BY_TENANT = {t: roles(Tenant=t, **EVERYTHING) for t in ("*", "acme", TAG)}
ON_RESOURCES = resource_statements()
WORK, DLQ = PLACES["work"], PLACES["work-dlq"]
ROWS, LETTERS = PLACES["checkpoints"], PLACES["dead-letters"]
OURS, THEIRS = f"{BUCKET}/tenants/acme/jobs/1", f"{BUCKET}/tenants/evil/jobs/1"
KEY, LIST = PLACES["key"], "s3:ListBucket"
GET, PUT = "s3:GetObject", "s3:PutObject"
REMOVE, VERSIONS = "s3:DeleteObjectVersion", "s3:ListBucketVersions"
DELETE, BATCH = "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"
END_KEY = "kms:ScheduleKeyDeletion"
VIA_SQS = "via=sqs.us-east-1.amazonaws.com"
VIA_DYNAMODB = "via=dynamodb.us-east-1.amazonaws.com"
VIA_CFN = "called=cloudformation.amazonaws.com"
STACK = "arn:aws:cloudformation:us-east-1:000000000000:stack/piecework-prod"
TAGGED = "app=piecework env=prod"
OPEN = "ec2:AuthorizeSecurityGroupIngress"
GROUP = "arn:aws:ec2:us-east-1:000000000000:security-group"
RUN = "ecs:RunTask"
OUR_CLUSTER = "cluster=arn:aws:ecs:us-east-1:000000000000:cluster/piecework-prod"
TO_ECS = "to=ecs-tasks.amazonaws.com"
STOP = "ecs:StopServiceDeployment"
SERVICE = "arn:aws:ecs:us-east-1:000000000000:service"
BOARD = "arn:aws:cloudwatch::000000000000:dashboard/piecework-prod"
ROLE = "arn:aws:iam::000000000000:role/piecework-prod"
#: The words of a row's condition, and the keys that IAM has for them.
KEYS = {
    "tls": "aws:securetransport",
    "key": "dynamodb:leadingkeys",
    "prefix": "s3:prefix",
    "tag": "aws:principaltag/tenant",
    "via": "kms:viaservice",
    "called": "aws:calledvia",
    "to": "iam:passedtoservice",
    "cluster": "ecs:cluster",
    "stack": "aws:resourcetag/stack",
    "app": "aws:resourcetag/app",
    "env": "aws:resourcetag/env",
}
MANY = {"key", "called"}

DECISIONS = [
    # the work queue
    ("orchestrator", "*", "sqs:SendMessage", WORK, "", YES),
    ("orchestrator", "*", "sqs:SendMessage", WORK, "tls=false", NEVER),
    ("orchestrator", "*", "sqs:SendMessage", f"{WORK}-2", "", NO),
    ("orchestrator", "*", "sqs:SendMessage", DLQ, "", NO),
    ("orchestrator", "*", "sqs:ReceiveMessage", WORK, "", NO),
    ("orchestrator", "*", "sqs:DeleteMessage", WORK, "", NO),
    ("worker", "*", "sqs:ReceiveMessage", WORK, "", YES),
    ("worker", "*", "sqs:ReceiveMessage", WORK, "tls=false", NEVER),
    ("worker", "*", "sqs:ReceiveMessage", DLQ, "", NO),
    ("worker", "*", "sqs:PurgeQueue", WORK, "", NO),
    ("reconciler", "*", "sqs:ReceiveMessage", DLQ, "", YES),
    ("reconciler", "*", "sqs:ReceiveMessage", DLQ, "tls=false", NEVER),
    ("reconciler", "*", "sqs:ReceiveMessage", WORK, "", NO),
    ("operator-read", "*", "sqs:SendMessage", WORK, "", NO),
    ("operator-write", "*", "sqs:SendMessage", WORK, "", YES),
    ("operator-write", "*", "sqs:StartMessageMoveTask", DLQ, "", NO),
    ("execution", "*", "sqs:ReceiveMessage", WORK, "", NO),
    # records: by the partition that a request names
    ("worker", "*", "dynamodb:UpdateItem", ROWS, "key=T#acme#J#1", YES),
    ("worker", "*", "dynamodb:UpdateItem", ROWS, "key=T#acme#J#1,ACTIVE", YES),
    ("worker", "*", "dynamodb:UpdateItem", ROWS, "key=BREAKERS", YES),
    ("worker", "*", "dynamodb:DeleteItem", ROWS, "key=BREAKERS", NO),
    ("worker", "*", "dynamodb:PutItem", ROWS, "key=BREAKERS", NO),
    ("worker", "*", "dynamodb:PutItem", ROWS, "key=BREAKERS,T#acme#OUTBOX", YES),
    ("worker", "*", "dynamodb:DeleteItem", ROWS, "key=BREAKERS,T#acme#J#1", NO),
    ("worker", "*", "dynamodb:UpdateItem", ROWS, "", NO),
    ("worker", "*", "dynamodb:Scan", ROWS, "", NO),
    ("worker", "*", "dynamodb:DeleteTable", ROWS, "", NO),
    ("worker", "*", "dynamodb:Query", LETTERS, "key=T#acme#J#1", NO),
    ("worker", "*", "dynamodb:PutItem", LETTERS, "key=T#acme#J#1,T#acme#OPEN", YES),
    ("worker", "*", "dynamodb:PutItem", LETTERS, "key=ELSEWHERE", NO),
    ("orchestrator", "*", "dynamodb:DeleteItem", ROWS, "key=T#acme#J#1", NO),
    ("orchestrator", "*", "dynamodb:PutItem", f"{ROWS}/index/x", "key=T#acme#J#1", NO),
    ("operator-read", "*", "dynamodb:GetItem", ROWS, "key=T#acme#J#1", YES),
    ("operator-read", "*", "dynamodb:UpdateItem", ROWS, "key=T#acme#J#1", NO),
    ("operator-read", "*", "dynamodb:Scan", LETTERS, "", YES),
    ("operator-read", "*", "dynamodb:Scan", ROWS, "", NO),
    ("operator-write", "*", DELETE, ROWS, "key=ACTIVE", YES),
    ("operator-write", "*", DELETE, ROWS, "key=T#acme#J#1,ACTIVE", YES),
    ("operator-write", "*", DELETE, ROWS, "key=T#acme#J#1", NO),
    ("operator-write", "acme", DELETE, ROWS, "key=T#evil#J#1,ACTIVE", NO),
    ("operator-write", "*", DELETE, ROWS, "key=T#acme#EVENTS,T#acme#WEBHOOKS", YES),
    ("operator-write", "*", DELETE, ROWS, "key=T#acme#EVENTS", NO),
    ("operator-write", "*", DELETE, LETTERS, "key=T#acme#OPEN", YES),
    ("operator-write", "*", DELETE, LETTERS, "key=T#acme#J#1", NO),
    ("operator-write", "acme", DELETE, LETTERS, "key=T#evil#OPEN", NO),
    ("operator-write", "*", DELETE, ROWS, "key=T#acme#J#1,EXPIRY", YES),
    ("operator-delete", "*", DELETE, ROWS, "key=T#acme#J#1", YES),
    ("operator-delete", "acme", DELETE, ROWS, "key=T#evil#J#1", NO),
    ("operator-delete", "acme", BATCH, ROWS, "key=T#acme#J#1", YES),
    ("operator-delete", "acme", BATCH, ROWS, "key=T#evil#J#1", NO),
    ("worker", "*", BATCH, ROWS, "key=T#acme#J#1", NO),
    ("operator-delete", "*", DELETE, ROWS, "key=BREAKERS", NO),
    ("operator-delete", "*", DELETE, ROWS, "", NO),
    ("operator-delete", "*", BATCH, LETTERS, "key=T#acme#J#1,T#acme#OPEN", YES),
    ("operator-delete", "acme", BATCH, LETTERS, "key=T#evil#J#1", NO),
    ("operator-delete", "*", BATCH, LETTERS, "", NO),
    ("reconciler", "*", BATCH, LETTERS, "key=T#acme#J#1,T#acme#OPEN", YES),
    ("operator-delete", "*", "dynamodb:PutItem", LETTERS, "key=T#acme#J#1", NO),
    ("operator-write", "*", "dynamodb:GetItem", ROWS, "key=T#acme#R#0f", NO),
    ("operator-read", "*", "dynamodb:GetItem", ROWS, "key=T#acme#R#0f", NO),
    ("operator-read", "*", "dynamodb:Query", ROWS, "key=T#acme#I#0f", NO),
    ("orchestrator", "*", "dynamodb:GetItem", ROWS, "key=T#acme#R#0f", NO),
    ("operator-write", "*", "dynamodb:PutItem", LETTERS, "key=T#acme#J#1", NO),
    ("reconciler", "*", "dynamodb:Query", ROWS, "key=ACTIVE", YES),
    # one tenant, and not another one's
    ("orchestrator", "acme", "dynamodb:PutItem", ROWS, "key=T#acme#J#1", YES),
    ("orchestrator", "acme", "dynamodb:PutItem", ROWS, "key=T#evil#J#1", NO),
    ("orchestrator", "acme", "dynamodb:PutItem", ROWS, "key=T#acme#J#1,T#evil#J#1", NO),
    ("orchestrator", "acme", "dynamodb:PutItem", ROWS, "", NO),
    ("orchestrator", "acme", PUT, f"{OURS}/payload/x.jsonl", "", YES),
    ("orchestrator", "acme", PUT, f"{THEIRS}/payload/x.jsonl", "", NO),
    ("operator-read", "acme", "dynamodb:Query", ROWS, "key=T#acme#JOBS", YES),
    ("operator-read", "acme", "dynamodb:Query", ROWS, "key=T#acme2#JOBS", NO),
    ("operator-read", "acme", "dynamodb:Query", ROWS, "key=ACTIVE", NO),
    ("operator-read", "acme", "dynamodb:Scan", LETTERS, "", NO),
    ("operator-read", "*", "dynamodb:GetItem", LETTERS, "key=T#acme#J#1", NO),
    ("operator-read", "acme", LIST, BUCKET, "prefix=tenants/acme/jobs/1/", YES),
    ("operator-read", "acme", LIST, BUCKET, "prefix=tenants/evil/jobs/1/", NO),
    ("operator-read", "acme", LIST, BUCKET, "prefix=tenants/", NO),
    ("operator-read", "acme", LIST, BUCKET, "", NO),
    ("operator-write", "acme", "dynamodb:UpdateItem", LETTERS, "key=T#evil#J#1", NO),
    # the tenant of the session's tag
    ("orchestrator", TAG, "dynamodb:Query", ROWS, "key=T#acme#J#1 tag=acme", YES),
    ("orchestrator", TAG, "dynamodb:Query", ROWS, "key=T#acme#J#1 tag=evil", NO),
    ("orchestrator", TAG, "dynamodb:Query", ROWS, "key=T#acme#J#1", NO),
    ("operator-read", TAG, GET, f"{OURS}/values/x.json", "tag=acme", YES),
    ("operator-read", TAG, GET, f"{OURS}/values/x.json", "tag=evil", NO),
    ("operator-read", TAG, GET, f"{OURS}/values/x.json", "", NO),
    # objects: by what they are
    ("worker", "*", GET, f"{OURS}/payload/x.jsonl", "", YES),
    ("worker", "*", GET, f"{OURS}/payload/x.jsonl", "tls=false", NEVER),
    ("worker", "*", GET, f"{OURS}/certificate/1.json", "", NO),
    # The payloads of child jobs.
    ("worker", "*", PUT, f"{OURS}/payload/x.jsonl", "", YES),
    ("worker", "*", "s3:DeleteObject", f"{OURS}/values/x.json", "", NO),
    *(
        (role, "*", REMOVE, f"{OURS}/payload/x.jsonl", "", right)
        for role, right in (
            ("operator-delete", YES),
            ("reconciler", YES),
            ("operator-write", NO),
            ("worker", NO),
        )
    ),
    ("operator-delete", "acme", REMOVE, f"{THEIRS}/payload/x.jsonl", "", NO),
    ("operator-delete", "*", GET, f"{OURS}/payload/x.jsonl", "", NO),
    ("operator-delete", "acme", VERSIONS, BUCKET, "prefix=tenants/acme/jobs/1/", YES),
    ("operator-delete", "acme", VERSIONS, BUCKET, "prefix=tenants/evil/jobs/1/", NO),
    ("reconciler", "*", VERSIONS, BUCKET, "prefix=tenants/acme/jobs/1/", YES),
    ("reconciler", "*", VERSIONS, BUCKET, "", NO),
    ("worker", "*", LIST, BUCKET, "", YES),
    ("worker", "*", GET, f"{BUCKET}/elsewhere/payload/x", "", NO),
    ("reconciler", "*", GET, f"{OURS}/manifest/x.jsonl", "", YES),
    ("reconciler", "*", GET, f"{OURS}/payload/x.jsonl", "", NO),
    ("reconciler", "*", GET, f"{OURS}/values/x.json", "", NO),
    ("orchestrator", "*", GET, f"{OURS}/values/x.json", "", NO),
    ("orchestrator", "*", GET, "arn:aws:s3:::inbox/manifests/a.jsonl", "", YES),
    ("orchestrator", "*", GET, "arn:aws:s3:::inbox/private/a.jsonl", "", NO),
    # the key: by way of the services alone
    ("worker", "*", "kms:Decrypt", KEY, VIA_SQS, YES),
    ("worker", "*", "kms:Decrypt", KEY, "", NO),
    ("worker", "*", "kms:Decrypt", KEY, "via=ec2.us-east-1.amazonaws.com", NO),
    ("operator-read", "*", "kms:GenerateDataKey", KEY, VIA_SQS, NO),
    ("worker", "*", END_KEY, KEY, VIA_SQS, NO),
    # tasks
    ("worker", "*", "ecs:UpdateTaskProtection", f"{PLACES['tasks'][:-1]}1", "", YES),
    ("worker", "*", "ecs:StopTask", f"{PLACES['tasks'][:-1]}1", "", NO),
    ("execution", "*", "logs:PutLogEvents", f"{PLACES['logs/worker']}", "", YES),
    ("execution", "*", "s3:GetObject", f"{OURS}/payload/x.jsonl", "", NO),
    # triggers: the one task, in the one cluster
    ("trigger", "*", RUN, PLACES["command"], OUR_CLUSTER, YES),
    ("trigger", "*", RUN, f"{PLACES['command']}:7", OUR_CLUSTER, YES),
    ("trigger", "*", RUN, PLACES["command"], f"{OUR_CLUSTER}2", NO),
    (
        "trigger",
        "*",
        RUN,
        PLACES["command"].replace("command", "worker"),
        OUR_CLUSTER,
        NO,
    ),
    ("trigger", "*", "iam:PassRole", f"{ROLE}-orchestrator", TO_ECS, YES),
    ("trigger", "*", "iam:PassRole", f"{ROLE}-worker", TO_ECS, NO),
    ("trigger", "*", "sqs:SendMessage", WORK, "", NO),
    ("deploy", "*", "iam:PassRole", f"{ROLE}-trigger", "to=events.amazonaws.com", YES),
    ("deploy", "*", "iam:PassRole", f"{ROLE}-trigger", TO_ECS, NO),
    # deploying
    ("deploy", "*", "cloudformation:ExecuteChangeSet", f"{STACK}-data/1", "", YES),
    ("deploy", "*", "cloudformation:ExecuteChangeSet", f"{STACK}-roles/1", "", NO),
    ("deploy", "*", "cloudformation:DescribeChangeSet", f"{STACK}-roles/1", "", YES),
    ("deploy", "*", "cloudformation:ExecuteChangeSet", f"{STACK}2-data/1", "", NO),
    ("deploy", "*", "iam:PassRole", f"{ROLE}-worker", TO_ECS, YES),
    ("deploy", "*", "iam:PassRole", f"{ROLE}-worker", "to=ec2.amazonaws.com", NO),
    ("deploy", "*", "iam:PassRole", f"{ROLE}-deploy", TO_ECS, NO),
    ("deploy", "*", "iam:CreateRole", f"{ROLE}-worker", VIA_CFN, NO),
    ("deploy", "*", "iam:AttachRolePolicy", f"{ROLE}-worker", VIA_CFN, NO),
    ("deploy", "*", "sqs:SetQueueAttributes", WORK, VIA_CFN, YES),
    ("deploy", "*", "sqs:SetQueueAttributes", WORK, "", NO),
    ("deploy", "*", "sqs:SetQueueAttributes", WORK, f"{VIA_CFN} tls=false", NEVER),
    ("deploy", "*", "dynamodb:DeleteTable", ROWS, VIA_CFN, NO),
    ("deploy", "*", "dynamodb:GetItem", ROWS, f"{VIA_CFN} key=T#acme#J#1", NO),
    ("deploy", "*", "s3:DeleteBucket", BUCKET, VIA_CFN, NO),
    ("deploy", "*", END_KEY, KEY, f"{VIA_CFN} stack=piecework-prod-alarms", YES),
    ("deploy", "*", END_KEY, KEY, f"{VIA_CFN} stack=piecework-test-alarms", NO),
    ("deploy", "*", END_KEY, KEY, VIA_CFN, NO),
    ("deploy", "*", END_KEY, KEY, "stack=piecework-prod-alarms", NO),
    ("deploy", "*", "s3:GetObject", f"{OURS}/payload/x.jsonl", VIA_CFN, NO),
    (
        "deploy",
        "*",
        "ecs:UpdateService",
        f"{SERVICE}/piecework-prod/worker",
        VIA_CFN,
        YES,
    ),
    ("deploy", "*", "ecs:UpdateService", f"{SERVICE}/another/worker", VIA_CFN, NO),
    ("deploy", "*", STOP, f"{SERVICE}-deployment/piecework-prod/w/1", VIA_CFN, YES),
    ("deploy", "*", STOP, f"{SERVICE}-deployment/another/w/1", VIA_CFN, NO),
    ("deploy", "*", STOP, f"{SERVICE}-deployment/piecework-prod/w/1", "", NO),
    ("deploy", "*", "iam:GetRole", f"{ROLE}-worker", VIA_CFN, YES),
    ("deploy", "*", "iam:GetRole", f"{ROLE}-deploy", VIA_CFN, NO),
    ("deploy", "*", "cloudwatch:PutDashboard", BOARD, VIA_CFN, YES),
    ("deploy", "*", "cloudwatch:PutDashboard", f"{BOARD}2", VIA_CFN, NO),
    ("deploy", "*", "sns:Unsubscribe", "*", VIA_CFN, YES),
    ("deploy", "*", "sns:Unsubscribe", "*", "", NO),
    ("deploy", "*", "s3:GetReplicationConfiguration", BUCKET, VIA_CFN, YES),
    ("deploy", "*", "s3:DeleteBucketLifecycle", BUCKET, VIA_CFN, NO),
    ("deploy", "*", "sqs:DeleteQueue", WORK, VIA_CFN, NO),
    ("deploy", "*", "kms:ReEncryptFrom", KEY, VIA_CFN, NO),
    ("deploy", "*", "kms:ReEncryptFrom", KEY, VIA_DYNAMODB, NO),
    ("deploy", "*", "kms:ReEncryptFrom", KEY, f"{VIA_DYNAMODB} {TAGGED}", YES),
    ("deploy", "*", "kms:PutKeyPolicy", KEY, f"{VIA_CFN} {TAGGED}", YES),
    ("deploy", "*", "kms:PutKeyPolicy", KEY, VIA_CFN, NO),
    ("deploy", "*", "kms:CreateKey", "*", VIA_CFN, NO),
    ("deploy", "*", OPEN, f"{GROUP}/sg-1", f"{VIA_CFN} {TAGGED}", YES),
    ("deploy", "*", OPEN, f"{GROUP}/sg-1", VIA_CFN, NO),
    ("deploy", "*", OPEN, f"{GROUP}/sg-1", TAGGED, NO),
]


def request(action: str, resource: str, facts: str) -> Request:
    """Return what a row asks for; over TLS unless it says otherwise."""
    found: dict[str, str | tuple[str, ...]] = {"aws:securetransport": "true"}
    for word in facts.split():
        name, _, value = word.partition("=")
        found[KEYS[name]] = tuple(value.split(",")) if name in MANY else value
    service = action.partition(":")[0]
    return Request(action, resource.format(service=service), found)


def decision(row: tuple[str, str, str, str, str, Decision]) -> Decision:
    """Return the decision about a row's request."""
    actor, tenant, action, resource, facts, _ = row
    granted = BY_TENANT[tenant][actor].grants
    return decide(request(action, resource, facts), granted, ON_RESOURCES)


def test_each_request_is_decided_as_its_row_says() -> None:
    assert [] == [row for row in DECISIONS if decision(row) is not row[-1]]


def test_the_table_is_large_enough_to_say_something() -> None:
    assert len(DECISIONS) >= 40
    assert set(BY_TENANT["*"]) == {actor for actor, *_ in DECISIONS}
    assert {YES, NO, NEVER} == {expected for *_, expected in DECISIONS}
