"""All formats of stored keys: table keys, object keys and call keys.

    partition                          sort key
    T#acme#J#<job>                     META, JOIN, TALLY, BUDGET, EVENT#<time>#<event>,
                                       NOTIFICATION#<gen>#<event>, COST#<actor>,
                                       WAIT#<time>#<n>, FAILED#<gen>#<counter>,
                                       CHILD#<job>
    T#acme#J#<job>[#G#0001]            CHUNK#<n>, RESULT#<n>, WORK#<n>#...
    T#acme#J#<job>[#G#0256]            TALLY#GROUPS
    T#acme#JOBS                        <created at>#<job>
    T#acme#PIPELINES                   <pipeline>
    T#acme#WEBHOOKS                    <webhook>
    T#acme#OUTBOX                      DELIVERY#<webhook>#<event>, DUE#<time>#...,
                                       DUE#<time>#RUNG#<job>#CHUNK#<n>#GEN#<gen>,
                                       OCCASION#<event>#<subject>#<pipeline>
    ACTIVE                             <tenant>#<job>, OUTBOX#T#<tenant>,
                                       WATCH#T#<tenant>,
                                       PIPELINE#T#<tenant>#<pipeline>
    EXPIRY                             <time>#<tenant>#<job>
                                       COLLECTOR#T#<tenant>#<model>
    T#acme#BATCHES#<model>             ASKED#<time>#<job>#<n>#<fence>#<part>,
                                       BATCH#<digest>, ENDED#<time>#<digest>
    BREAKERS                           <dependency>, LIMITS#<dependency>,
                                       BUDGET#<tenant>
    WORKERS                            <worker>
    T#acme#I#<sha256>                  RECORD, HEAD, SEQ#<n>
    T#acme#R#<sha256>                  RESPONSE

and in the table of dead letters

    T#acme#J#<job>                     CHUNK#<n>#GEN#<gen>
    T#acme#OPEN                        <time>#<job>#CHUNK#<n>#GEN#<gen>
    T#acme#ALARM                       age, arrivals, arrivals#<pipeline>
    QUARANTINE                         <message id>

`group_of` maps chunks to partitions; the comment above it has the reason.

All formats are in one file, so that a reader sees that no two collide.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from difflib import get_close_matches

JOIN_CHUNK = -1
#: The largest numbers that fit the fixed width, which keeps keys in numeric order.
MAX_CHUNK_NUMBER = 99_999_999
MAX_GENERATION = 9_999

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
#: What views and options call the queue of the pipelines that declare none.
DEFAULT_QUEUE = "default"
_QUEUE_NAME = re.compile(r"[a-z][a-z0-9-]{0,29}\Z")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")


def is_name(text: object) -> bool:
    """Return whether a text is a safe part of a key: no separator, no path."""
    return isinstance(text, str) and _NAME.match(text) is not None


def similar_names(name: str, known: Collection[str]) -> list[str]:
    """Return the known names that resemble a name, in any case; the best first."""
    near = get_close_matches(name.casefold(), {each.casefold() for each in known})
    return [each for like in near for each in known if each.casefold() == like]


def is_queue_name(text: object) -> bool:
    """Return whether a text may name a pipeline's queue; SQS allows 80 in all."""
    return isinstance(text, str) and _QUEUE_NAME.match(text) is not None


def is_file_name(text: str) -> bool:
    """Return whether a text may name an artifact: no path, hidden file or option."""
    return _FILE_NAME.match(text) is not None


# ── partitions and sort keys ────────────────────────────────────────────────

ACTIVE_PK = "ACTIVE"
BREAKERS_PK = "BREAKERS"
EXPIRY_PK = "EXPIRY"
QUARANTINE_PK = "QUARANTINE"
WORKERS_PK = "WORKERS"
META_SK = "META"
TALLY_SK = "TALLY"
BLOCK_SK = "TALLY#GROUPS"
FAILED_PREFIX = "FAILED#"
#: Counters of the dead letters of a job: transactions on one item conflict.
FAILED_COUNTERS = 32
CHUNK_PREFIX = "CHUNK#"
RESULT_PREFIX = "RESULT#"
WORK_PREFIX = "WORK#"
EVENT_PREFIX = "EVENT#"
NOTIFICATION_PREFIX = "NOTIFICATION#"
COST_PREFIX = "COST#"
LIMITS_PREFIX = "LIMITS#"
TENANT_LIMIT = "tenant:"
BACKLOG_PREFIX = "BACKLOG#"
DUE_PREFIX = "DUE#"
WAIT_PREFIX = "WAIT#"
CHILD_PREFIX = "CHILD#"
DELIVERY_PREFIX = "DELIVERY#"
OCCASION_PREFIX = "OCCASION#"
OUTBOX_PREFIX = "OUTBOX#T#"
WATCH_PREFIX = "WATCH#T#"
PIPELINE_PREFIX = "PIPELINE#T#"
COLLECTOR_PREFIX = "COLLECTOR#T#"
ASKED_PREFIX = "ASKED#"
BATCH_PREFIX = "BATCH#"
ENDED_PREFIX = "ENDED#"
BUDGET_SK = "BUDGET"
BUDGET_PREFIX = "BUDGET#"
RECORD_SK = "RECORD"
HEAD_SK = "HEAD"
RESPONSE_SK = "RESPONSE"
AGE_SK = "age"
#: The rows of a job, beside its own and its tallies, that have no time to live.
UNTIMED_PREFIXES = (
    EVENT_PREFIX,
    NOTIFICATION_PREFIX,
    COST_PREFIX,
    FAILED_PREFIX,
    BUDGET_SK,
    WAIT_PREFIX,
    CHILD_PREFIX,
)
#: It sorts after each sort key.
LAST_SK = "~"
#: The kinds of a chunk's rows; each begins the last part of a sort key.
STAGE_ROWS = "STAGE#"
CALLS_ROWS = "CALLS#"
EFFECT_ROWS = "EFFECT#"
ERROR_ROWS = "ERROR#"
COMPENSATED_ROWS = "COMPENSATED#"
QUESTION_ROWS = "QUESTION#"
REQUEST_ROWS = "BATCH#"
ANSWER_ROWS = "ANSWER#"

_JOB_PK = re.compile(
    r"T#([A-Za-z0-9_-]{1,64})#J#([A-Za-z0-9_-]{1,64})(?:#G#[0-9]{4,})?\Z"
)
_OBJECT = re.compile(r"tenants/([A-Za-z0-9_-]{1,64})/jobs/([A-Za-z0-9_-]{1,64})/")
_DEAD_LETTER_SK = re.compile(r"(?:JOIN|CHUNK#([0-9]{8}))#GEN#([0-9]{4})\Z")


def job_pk(tenant: str, job: str) -> str:
    """Return the partition of a job."""
    return f"T#{tenant}#J#{job}"


def job_of_pk(pk: str) -> tuple[str, str] | None:
    """Return tenant and job of a job's partition; None: it is another partition."""
    found = _JOB_PK.match(pk)
    return None if found is None else (found[1], found[2])


def jobs_pk(tenant: str) -> str:
    """Return the partition that lists a tenant's jobs by time."""
    return f"T#{tenant}#JOBS"


def jobs_sk(created_at: str, job: str) -> str:
    """Return the sort key of a job in its tenant's list."""
    return f"{created_at}#{job}"


def job_of_jobs_sk(sk: str) -> str | None:
    """Return the job of a line in a tenant's list; None: it is another row."""
    job = sk.partition("#")[2]
    return job if is_name(job) else None


def active_sk(tenant: str, job: str) -> str:
    """Return the sort key under which the reconciler finds an unfinished job."""
    return f"{tenant}#{job}"


def job_of_active_sk(sk: str) -> tuple[str, str] | None:
    """Return tenant and job of an active job; None: it is another row."""
    tenant, _, job = sk.partition("#")
    return (tenant, job) if is_name(tenant) and is_name(job) else None


def expiry_sk(at: str, tenant: str, job: str) -> str:
    """Return the sort key under which the reconciler finds a job that expires."""
    return f"{at}#{tenant}#{job}"


def job_of_expiry_sk(sk: str) -> tuple[str, str, str] | None:
    """Return time, tenant and job of a job that expires; None: it is another row."""
    at, _, rest = sk.partition("#")
    named = job_of_active_sk(rest)
    return None if named is None else (at, *named)


def webhooks_pk(tenant: str) -> str:
    """Return the partition of a tenant's webhooks."""
    return f"T#{tenant}#WEBHOOKS"


def outbox_pk(tenant: str) -> str:
    """Return the partition of a tenant's deliveries to webhooks."""
    return f"T#{tenant}#OUTBOX"


def delivery_sk(webhook: str, event: str) -> str:
    """Return the sort key of an event on its way to a webhook.

    Without an event it is the beginning that all deliveries of a webhook have. Without
    a webhook it is the beginning of all.
    """
    return f"{DELIVERY_PREFIX}{webhook}#{event}" if webhook else DELIVERY_PREFIX


def due_sk(due_at: str, webhook: str, event: str) -> str:
    """Return the sort key under which a delivery is found when it is due."""
    return f"{DUE_PREFIX}{due_at}#{webhook}#{event}"


def rung_due_sk(due_at: str, job: str, chunk: int, gen: int) -> str:
    """Return the sort key under which a rung of a dead letter is found when due."""
    return f"{DUE_PREFIX}{due_at}#RUNG#{job}#{dead_letter_sk(chunk, gen)}"


def wait_sk(due_at: str, chunk: int) -> str:
    """Return the sort key under which a chunk that waits long is found by its time."""
    return f"{WAIT_PREFIX}{due_at}#{chunk_name(chunk)}"


def wait_end_sk(due_at: str) -> str:
    """Return the end of the sort keys of the waits that are due until then."""
    return f"{WAIT_PREFIX}{due_at}{LAST_SK}"


def child_sk(job: str) -> str:
    """Return the sort key of a child, beside the row of its parent."""
    return CHILD_PREFIX + job


def outbox_sk(tenant: str) -> str:
    """Return the sort key, among the active jobs, of an outbox with deliveries."""
    return OUTBOX_PREFIX + tenant


def watch_sk(tenant: str) -> str:
    """Return the sort key, among the active jobs, of a tenant that is watched."""
    return WATCH_PREFIX + tenant


def tenant_of_mark(prefix: str, sk: str) -> str | None:
    """Return the tenant of a mark among the active jobs; None: it is another row."""
    tenant = sk.removeprefix(prefix)
    return tenant if tenant != sk and is_name(tenant) else None


def occasion_sk(event: str, subject: str, pipeline: str) -> str:
    """Return the sort key of a state that lasts, beside the deliveries of a tenant."""
    return f"{OCCASION_PREFIX}{event}#{subject}#{pipeline}"


def pipelines_pk(tenant: str) -> str:
    """Return the partition of the pauses of a tenant's pipelines."""
    return f"T#{tenant}#PIPELINES"


def pipeline_sk(tenant: str, pipeline: str) -> str:
    """Return the sort key of a paused pipeline, among the active jobs."""
    return f"{PIPELINE_PREFIX}{tenant}#{pipeline}"


def pipeline_of_sk(sk: str) -> tuple[str, str] | None:
    """Return tenant and name of a paused pipeline; None: it is another row."""
    tenant, _, pipeline = sk.removeprefix(PIPELINE_PREFIX).partition("#")
    is_pause = sk.startswith(PIPELINE_PREFIX) and is_name(tenant) and is_name(pipeline)
    return (tenant, pipeline) if is_pause else None


def backlog_sk(queue: str, tenant: str, job: str) -> str:
    """Return the sort key of the backlog of a job, among the active jobs.

    Without tenant and job it is the beginning of the keys of a queue.
    """
    beginning = f"{BACKLOG_PREFIX}{queue}#"
    return f"{beginning}{tenant}#{job}" if job else beginning


def events_pk(tenant: str) -> str:
    """Return the partition of a tenant's events; empty: those of the environment."""
    return f"T#{tenant}#EVENTS" if tenant else "EVENTS"


def event_sk(at: str, event: str, token: str) -> str:
    """Return the sort key of an event of a job."""
    return f"{EVENT_PREFIX}{at}#{event}#{token}"


def notification_sk(gen: int, event: str) -> str:
    """Return the sort key of a notification of a generation of a job."""
    return f"{NOTIFICATION_PREFIX}{gen:04d}#{event}"


def failed_prefix(gen: int) -> str:
    """Return the prefix of the counters of a generation's dead letters."""
    return f"{FAILED_PREFIX}{gen:04d}#"


def failed_sk(gen: int, chunk: int) -> str:
    """Return the sort key of the counter that counts the dead letter of a chunk."""
    return f"{failed_prefix(gen)}{chunk % FAILED_COUNTERS:02d}"


def budget_sk(tenant: str) -> str:
    """Return the sort key of a tenant's daily budget, beside the breakers."""
    return BUDGET_PREFIX + tenant


def tenant_limit(tenant: str) -> str:
    """Return the name of a tenant's cap among the limits; no dependency begins so."""
    return TENANT_LIMIT + tenant


def limits_sk(dependency: str) -> str:
    """Return the sort key of the limits of a dependency, or of the cap of a tenant."""
    return LIMITS_PREFIX + dependency


def cost_sk(actor: str) -> str:
    """Return the sort key of the cost of one kind of process for a job."""
    return f"{COST_PREFIX}{actor}"


def actor_of_cost_sk(sk: str) -> str:
    """Return the kind of process of a row of costs."""
    return sk.removeprefix(COST_PREFIX)


def idempotency_pk(tenant: str, key: str) -> str:
    """Return the partition of an idempotent operation, or of a stream of them."""
    return f"T#{tenant}#I#{key}"


def number_sk(number: int) -> str:
    """Return the sort key of one operation of a stream."""
    return f"SEQ#{number:012d}"


def response_pk(tenant: str, key: str) -> str:
    """Return the partition of a response that all jobs of a tenant share."""
    return f"T#{tenant}#R#{key}"


def partition_pk(tenant: str, job: str, partition: int) -> str:
    """Return the key of the job's partition with this number."""
    return job_pk(tenant, job) + (f"#G#{partition:04d}" if partition else "")


def chunk_pk(tenant: str, job: str, chunk: int) -> str:
    """Return the partition of a chunk and its rows."""
    return partition_pk(tenant, job, group_of(chunk))


def chunk_name(chunk: int) -> str:
    """Return a chunk's number in fixed width, or JOIN."""
    return "JOIN" if chunk == JOIN_CHUNK else f"{chunk:08d}"


def chunk_number(sk: str) -> int:
    """Return the chunk's number from its sort key."""
    return int(sk.removeprefix(CHUNK_PREFIX))


def chunk_sk(chunk: int) -> str:
    """Return the sort key of a chunk."""
    return "JOIN" if chunk == JOIN_CHUNK else CHUNK_PREFIX + chunk_name(chunk)


def result_sk(chunk: int) -> str:
    """Return the sort key of a chunk's result."""
    return RESULT_PREFIX + chunk_name(chunk)


def work_prefix(chunk: int) -> str:
    """Return the common prefix of the sort keys of a chunk's rows."""
    return f"{WORK_PREFIX}{chunk_name(chunk)}#"


def work_part(chunk: int, sk: str) -> str:
    """Return the last part of a sort key: the kind and the name of the row."""
    return sk.removeprefix(work_prefix(chunk))


def stage_part(stage: str, fence: int) -> str:
    """Return the last part of the sort key of a stage that a claim completed."""
    return f"{STAGE_ROWS}{stage}#{fence:04d}"


def stage_sk(chunk: int, stage: str, fence: int) -> str:
    """Return the sort key of a stage that a claim completed; each has its own."""
    return work_prefix(chunk) + stage_part(stage, fence)


def calls_prefix(chunk: int) -> str:
    """Return the common prefix of the pages of a chunk's call journal."""
    return work_prefix(chunk) + CALLS_ROWS


def calls_sk(chunk: int, gen: int, fence: int, page: int) -> str:
    """Return the sort key of a page of the call journal; each claim has its own."""
    return f"{calls_prefix(chunk)}{gen:04d}#{fence:04d}#{page:04d}"


def claim_of_part(part: str) -> tuple[int, int]:
    """Return the generation and the fence of a page of the call journal, or error."""
    _, gen, fence, *_ = part.split("#")
    return int(gen), int(fence)


def effect_sk(chunk: int, key: str) -> str:
    """Return the sort key of an effect in the ledger."""
    return work_prefix(chunk) + EFFECT_ROWS + key


def question_part(stage: str, question: str) -> str:
    """Return the last part of the sort key of a question of a stage."""
    return f"{QUESTION_ROWS}{stage}#{question}"


def question_sk(chunk: int, stage: str, question: str) -> str:
    """Return the sort key of a question that a stage of a chunk asks."""
    return work_prefix(chunk) + question_part(stage, question)


def request_sk(chunk: int, fence: int, part: int) -> str:
    """Return the sort key of a request of a claim for a batch."""
    return f"{work_prefix(chunk)}{REQUEST_ROWS}{fence:04d}#{part:02d}"


def answer_sk(chunk: int, custom_id: str, fence: int) -> str:
    """Return the sort key of the answer of a batch to a call: one for each request."""
    return f"{work_prefix(chunk)}{ANSWER_ROWS}{custom_id}#{fence:04d}"


def batches_pk(tenant: str, model: str) -> str:
    """Return the partition of the batches of a model for a tenant."""
    return f"T#{tenant}#BATCHES#{model}"


def collector_sk(tenant: str, model: str) -> str:
    """Return the sort key of a collector, among the active jobs."""
    return f"{COLLECTOR_PREFIX}{tenant}#{model}"


def collected_by(sk: str) -> tuple[str, str] | None:
    """Return tenant and model of a collector; None: it is another row."""
    tenant, _, model = sk.removeprefix(COLLECTOR_PREFIX).partition("#")
    is_one = sk.startswith(COLLECTOR_PREFIX) and is_name(tenant) and is_name(model)
    return (tenant, model) if is_one else None


def asked_sk(at: str, job: str, chunk: int, fence: int, part: int) -> str:
    """Return the sort key of a request that no batch has yet."""
    place = f"{job}#{chunk_name(chunk)}#{fence:04d}#{part:02d}"
    return f"{ASKED_PREFIX}{at}#{place}"


def batch_sk(digest: str) -> str:
    """Return the sort key of a batch that has not ended."""
    return f"{BATCH_PREFIX}{digest}"


def ended_batch_sk(at: str, digest: str) -> str:
    """Return the sort key of a batch that has ended."""
    return f"{ENDED_PREFIX}{at}#{digest}"


def error_sk(chunk: int, gen: int, fence: int) -> str:
    """Return the sort key of the error that ended one claim."""
    return f"{work_prefix(chunk)}{ERROR_ROWS}{gen:04d}#{fence:04d}"


def compensation_part(gen: int) -> str:
    """Return the last part of the sort key of the cause of a compensation."""
    return f"COMPENSATION#{gen:04d}"


def compensation_sk(chunk: int, gen: int) -> str:
    """Return the sort key of the cause of a compensation: one for each generation."""
    return work_prefix(chunk) + compensation_part(gen)


def compensated_part(gen: int, stage: str = "") -> str:
    """Return the last part of the sort key of a compensated stage.

    Without a stage, return the beginning that all stages of the generation have.
    """
    return f"{COMPENSATED_ROWS}{gen:04d}#{stage}"


def compensated_sk(chunk: int, gen: int, stage: str = "") -> str:
    """Return the sort key of a compensated stage; see `compensated_part`."""
    return work_prefix(chunk) + compensated_part(gen, stage)


def dead_letter_sk(chunk: int, gen: int) -> str:
    """Return the sort key of a dead letter: one for each generation."""
    return f"{chunk_sk(chunk)}#GEN#{gen:04d}"


def dead_letters_prefix(chunk: int) -> str:
    """Return the common prefix of the sort keys of a chunk's dead letters."""
    return f"{chunk_sk(chunk)}#"


def dead_letter_of(pk: str, sk: str) -> tuple[str, str, int, int] | None:
    """Return tenant, job, chunk and generation of a dead letter.

    None: the row is not a dead letter.
    """
    job, found = job_of_pk(pk), _DEAD_LETTER_SK.match(sk)
    if job is None or found is None or pk != job_pk(*job):
        return None
    number = JOIN_CHUNK if found[1] is None else int(found[1])
    return (*job, number, int(found[2]))


def open_letters_pk(tenant: str) -> str:
    """Return the partition that lists a tenant's open dead letters by time."""
    return f"T#{tenant}#OPEN"


def open_letter_sk(dead_lettered_at: str, job: str, chunk: int, gen: int) -> str:
    """Return the sort key under which an open dead letter is found by its age."""
    return f"{dead_lettered_at}#{job}#{dead_letter_sk(chunk, gen)}"


def alarms_pk(tenant: str) -> str:
    """Return the partition of a tenant's raised alarms."""
    return f"T#{tenant}#ALARM"


def arrivals_sk(pipeline: str = "") -> str:
    """Return the sort key of the alarm of arrivals: of a tenant, or of a pipeline."""
    return f"arrivals#{pipeline}" if pipeline else "arrivals"


# ── objects ─────────────────────────────────────────────────────────────────


def object_prefix(tenant: str, job: str) -> str:
    """Return the prefix of all objects of a job; its parts are validated names."""
    return f"{tenant_prefix(tenant)}jobs/{job}"


def tenant_prefix(tenant: str) -> str:
    """Return the beginning of the keys of all objects of a tenant."""
    return f"tenants/{tenant}/"


def job_of_object(key: str) -> tuple[str, str] | None:
    """Return tenant and job of an object; None: it is not an object of a job."""
    found = _OBJECT.match(key)
    return None if found is None else (found[1], found[2])


def pack_key(tenant: str, job: str, pack: str) -> str:
    """Return the object of a pack of payloads."""
    return f"{object_prefix(tenant, job)}/payload/{pack}.jsonl"


def manifest_key(tenant: str, job: str, sha256: str) -> str:
    """Return the object of a manifest."""
    return f"{object_prefix(tenant, job)}/manifest/{sha256}.jsonl"


def stage_value_key(
    tenant: str, job: str, chunk: int, gen: int, fence: int, stage: str
) -> str:
    """Return the object of a stage's large value; each claim writes its own."""
    place = f"{chunk_name(chunk)}/{gen:04d}-{fence:04d}/{stage}"
    return f"{object_prefix(tenant, job)}/values/{place}"


def call_value_key(tenant: str, job: str, key: str) -> str:
    """Return the object of a call's large answer."""
    return f"{object_prefix(tenant, job)}/calls/{key}"


def kept_calls_key(tenant: str, job: str, chunk: int, fence: int) -> str:
    """Return the object of the calls that a claim keeps with their arguments."""
    place = f"{chunk_name(chunk)}/{fence:04d}"
    return f"{object_prefix(tenant, job)}/asked/{place}.jsonl.gz"


def request_key(tenant: str, job: str, chunk: int, fence: int, part: int) -> str:
    """Return the object of a request for a batch."""
    place = f"{chunk_name(chunk)}/{fence:04d}-{part:02d}"
    return f"{object_prefix(tenant, job)}/asked/batched/{place}.jsonl"


def unreadable_key(tenant: str, job: str, digest: str) -> str:
    """Return the object of the lines of a batch without an outcome."""
    return f"{object_prefix(tenant, job)}/asked/unreadable/{digest}.jsonl"


def effect_value_key(tenant: str, job: str, key: str) -> str:
    """Return the object of an effect's large answer."""
    return f"{object_prefix(tenant, job)}/effects/{key}"


def large_value_key(beginning: str, sha256: str) -> str:
    """Return the object of a large value: each content has its own."""
    return f"{beginning}-{sha256[:16]}.json"


def artifact_key(tenant: str, job: str, name: str) -> str:
    """Return the object of an artifact; without a name, the prefix of all."""
    return f"{object_prefix(tenant, job)}/artifacts/{name}"


#: The first part of a certificate that names single chunks; within a text the quotes
#: would be escaped.
CERTIFICATE_HEAD_ENDS = b'"results": {'


def certificate_key(tenant: str, job: str, gen: int, sha256: str) -> str:
    """Return the object of a certificate; each content has its own."""
    return f"{object_prefix(tenant, job)}/certificate/{gen:04d}-{sha256[:16]}.json"


# ── calls ───────────────────────────────────────────────────────────────────


def sha256(content: bytes) -> str:
    """Return a SHA-256 as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def sha256_of(*parts: str | int) -> str:
    """Return a SHA-256 that differs if any part differs, or its type."""
    return sha256(json.dumps(parts, separators=(",", ":")).encode())


def order_key(tenant: str, job: str, key: str) -> str:
    """Return the stored form of an order key: a hash that differs in each job."""
    return sha256_of("order", tenant, job, key)[:32]


def provider_key(key: str, gen: int) -> str:
    """Return the idempotency key that the provider sees."""
    return sha256(f"{key}#{gen}".encode())


def notification_key(tenant: str, job: str, gen: int, event: str) -> str:
    """Return the idempotency key of a notification."""
    return sha256_of(tenant, job, gen, event)


def rung_key(tenant: str, job: str, chunk: int, gen: int, rung: str) -> str:
    """Return the idempotency key of a rung of a dead letter."""
    return sha256_of("rung", tenant, job, chunk, gen, rung)


_COMPENSATE = "compensate:"


def compensation_stage(stage: str, gen: int) -> str:
    """Return the stage name that the calls of a compensation have in their keys.

    The generation is part of it: each generation compensates with calls of its own.
    """
    return f"{_COMPENSATE}{stage}:{gen}"


def compensated_stage(stage: str) -> str:
    """Return the stage that calls of this stage name compensate; empty: none."""
    if not is_compensation_stage(stage):
        return ""
    return stage.removeprefix(_COMPENSATE).rpartition(":")[0]


def is_compensation_stage(stage: str) -> bool:
    """Return whether a stage name is that of a compensation."""
    return stage.startswith(_COMPENSATE)


# ── map the chunks of a job to partitions ─────────────────────────────────────
#
# A partition holds 256 chunks. The first one also holds the job's own items, so that
# one query reads a small job. Each further one has its own partition key, so that a
# large job has no hot partition. A block counts the full ones among 256 partitions.
# Both sizes are part of the stored format: they must not change while there are jobs.

PARTITION_SIZE = 256
#: Partitions that one item counts. DynamoDB charges each write by the size of the item,
#: so a larger set would cost more.
BLOCK_SIZE = 256


def group_of(chunk: int) -> int:
    """Return the partition of a chunk; the join is in the first."""
    return max(chunk, 0) // PARTITION_SIZE


def partition_count(chunks: int) -> int:
    """Return how many partitions a job of so many chunks has."""
    return max(1, -(-chunks // PARTITION_SIZE))


def partition_size(partition: int, chunks: int) -> int:
    """Return how many chunks a partition of the job has."""
    return min(PARTITION_SIZE, chunks - partition * PARTITION_SIZE)


def numbers_of(partition: int, chunks: int) -> range:
    """Return the numbers of a partition's chunks among the first so many chunks."""
    first = partition * PARTITION_SIZE
    return range(first, max(first, min(first + PARTITION_SIZE, chunks)))


def block_of(partition: int) -> int:
    """Return the block of a partition."""
    return partition // BLOCK_SIZE


def block_pk(tenant: str, job: str, block: int) -> str:
    """Return the partition of a block's tally: the first partition of the block."""
    return partition_pk(tenant, job, block * BLOCK_SIZE)


def block_count(chunks: int) -> int:
    """Return how many blocks a job of so many chunks has."""
    return -(-partition_count(chunks) // BLOCK_SIZE)


def block_size(block: int, chunks: int) -> int:
    """Return how many partitions a block of the job has."""
    return min(BLOCK_SIZE, partition_count(chunks) - block * BLOCK_SIZE)
