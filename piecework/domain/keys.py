"""All stored string formats: names, table keys, object keys, call keys.

    partition                          sort key
    T#acme#J#<job>                     META, JOIN, TALLY, EVENT#<time>#<event>,
                                       NOTIFICATION#<gen>#<event>, COST#<actor>
    T#acme#J#<job>[#G#0001]            CHUNK#<n>, RESULT#<n>, WORK#<n>#...
    T#acme#J#<job>[#G#0256]            TALLY#GROUPS
    T#acme#JOBS                        <created at>#<job>
    ACTIVE                             <tenant>#<job>
    BREAKERS                           <dependency>
    T#acme#I#<sha256>                  RECORD, HEAD, SEQ#<n>
    T#acme#R#<sha256>                  RESPONSE

and in the table of dead letters

    T#acme#J#<job>                     CHUNK#<n>#GEN#<gen>
    T#acme#OPEN                        <died at>#<job>#CHUNK#<n>#GEN#<gen>
    T#acme#ALARM                       <alarm>

`layout` maps chunks to partitions and says why.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from piecework.domain.values import canonical_json

JOIN_CHUNK = -1
#: The largest numbers that fit the fixed width, which keeps keys in numeric order.
MAX_CHUNK_NUMBER = 99_999_999
MAX_GENERATION = 9_999

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\Z")


def is_name(text: str) -> bool:
    """Return whether a text is a safe part of a key: no separator, no path."""
    return _NAME.match(text) is not None


def is_file_name(text: str) -> bool:
    """Return whether a text may name an artifact: no path, no hidden file."""
    return _FILE_NAME.match(text) is not None


# ── partitions and sort keys ────────────────────────────────────────────────

ACTIVE_PK = "ACTIVE"
BREAKERS_PK = "BREAKERS"
META_SK = "META"
TALLY_SK = "TALLY"
BLOCK_SK = "TALLY#GROUPS"
CHUNK_PREFIX = "CHUNK#"
RESULT_PREFIX = "RESULT#"
EVENT_PREFIX = "EVENT#"
NOTIFICATION_PREFIX = "NOTIFICATION#"
COST_PREFIX = "COST#"
RECORD_SK = "RECORD"
HEAD_SK = "HEAD"
RESPONSE_SK = "RESPONSE"


def job_pk(tenant: str, job: str) -> str:
    """Return the partition of a job."""
    return f"T#{tenant}#J#{job}"


def jobs_pk(tenant: str) -> str:
    """Return the partition that lists a tenant's jobs by time."""
    return f"T#{tenant}#JOBS"


def active_sk(tenant: str, job: str) -> str:
    """Return the sort key under which the reconciler finds an unfinished job."""
    return f"{tenant}#{job}"


def notification_sk(gen: int, event: str) -> str:
    """Return the sort key of a notification of a generation of a job."""
    return f"{NOTIFICATION_PREFIX}{gen:04d}#{event}"


def cost_sk(actor: str) -> str:
    """Return the sort key of the cost of one kind of process for a job."""
    return f"{COST_PREFIX}{actor}"


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
    return partition_pk(tenant, job, partition_of(chunk))


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
    return f"WORK#{chunk_name(chunk)}#"


def stage_sk(chunk: int, stage: str) -> str:
    """Return the sort key of a completed stage."""
    return f"{work_prefix(chunk)}STAGE#{stage}"


def calls_sk(chunk: int, gen: int, fence: int, page: int) -> str:
    """Return the sort key of a page of the call journal; each claim has its own."""
    return f"{work_prefix(chunk)}CALLS#{gen:04d}#{fence:04d}#{page:04d}"


def effect_sk(chunk: int, key: str) -> str:
    """Return the sort key of an effect in the ledger."""
    return f"{work_prefix(chunk)}EFFECT#{key}"


def error_sk(chunk: int, gen: int, fence: int) -> str:
    """Return the sort key of the error that ended one claim."""
    return f"{work_prefix(chunk)}ERROR#{gen:04d}#{fence:04d}"


def dead_letter_sk(chunk: int, gen: int) -> str:
    """Return the sort key of a dead letter: one for each generation."""
    return f"{chunk_sk(chunk)}#GEN#{gen:04d}"


def open_letters_pk(tenant: str) -> str:
    """Return the partition that lists a tenant's open dead letters by time."""
    return f"T#{tenant}#OPEN"


def open_letter_sk(dead_lettered_at: str, job: str, chunk: int, gen: int) -> str:
    """Return the sort key under which an open dead letter is found by its age."""
    return f"{dead_lettered_at}#{job}#{dead_letter_sk(chunk, gen)}"


def alarms_pk(tenant: str) -> str:
    """Return the partition that says which alarms a tenant was given last."""
    return f"T#{tenant}#ALARM"


# ── objects ─────────────────────────────────────────────────────────────────


def object_prefix(tenant: str, job: str) -> str:
    """Return the prefix of all objects of a job; its parts are validated names."""
    return f"tenants/{tenant}/jobs/{job}"


# ── calls ───────────────────────────────────────────────────────────────────


def sha256(content: bytes) -> str:
    """Return a SHA-256 as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def call_key(*scope: str | int, args: Any) -> str:
    """Return the idempotency key of a call.

    The scope is tenant, job, chunk, stage, dependency and function. A call that all
    jobs share, or a call outside a job, has only the remaining names. No time, attempt
    or random number is part of it, so the same logical call always has the same key.
    """
    return sha256(canonical_json([*scope, args]).encode())


def provider_key(key: str, epoch: int) -> str:
    """Return the idempotency key that the provider sees."""
    return sha256(f"{key}#{epoch}".encode())


# Map the chunks of a job to partitions, and the partitions to blocks.
#
# A partition holds 256 chunks. The first one also holds the job's own items, so that
# one query reads a small job. Each further one has its own partition key, so that a
# large job has no hot partition. A block counts the full ones among 256 partitions.
# Both sizes are part of the stored format: they must not change while there are jobs.

PARTITION_SIZE = 256
#: Partitions that one item counts. DynamoDB charges each write by the size of the item,
#: so a larger set would cost more.
BLOCK_SIZE = 256


def partition_of(chunk: int) -> int:
    """Return the partition of a chunk; the join is in the first."""
    return max(chunk, 0) // PARTITION_SIZE


def partition_count(chunks: int) -> int:
    """Return how many partitions a job of so many chunks has."""
    return max(1, -(-chunks // PARTITION_SIZE))


def partition_size(partition: int, chunks: int) -> int:
    """Return how many chunks a partition of the job has."""
    return min(PARTITION_SIZE, chunks - partition * PARTITION_SIZE)


def block_of(partition: int) -> int:
    """Return the block of a partition."""
    return partition // BLOCK_SIZE


def block_count(chunks: int) -> int:
    """Return how many blocks a job of so many chunks has."""
    return -(-partition_count(chunks) // BLOCK_SIZE)


def block_size(block: int, chunks: int) -> int:
    """Return how many partitions a block of the job has."""
    return min(BLOCK_SIZE, partition_count(chunks) - block * BLOCK_SIZE)
