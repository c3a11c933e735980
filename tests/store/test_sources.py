"""What the sources may not do, read from the sources themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORE = sorted((ROOT / "piecework" / "store").glob("*.py"))
LIBRARY = sorted((ROOT / "piecework").rglob("*.py"))
WORKERS = sorted((ROOT / "workers").rglob("*.py"))
RESERVED = set((Path(__file__).parent / "reserved_words.txt").read_text().split())

#: Writes without a condition of their own, and why they need none: file, function.
UNCONDITIONAL = {
    ("completion.py", "add"): "adding to a set twice is adding once",
    ("completion.py", "_on_block"): "as for a group: a set, added to or taken from",
    ("completion.py", "remove"): "taking from a set twice is taking once",
    (
        "cancellation.py",
        "compensation_put",
    ): "goes with a conditional write on the chunk",
    ("notifications.py", "notification_put"): "goes with the job's transition",
    ("workers.py", "report"): "a hint for operators; the next report replaces it",
    ("checkpoints.py", "result_put"): "goes with the fenced end of the claim",
    ("checkpoints.py", "with_stage"): "a row of this claim; it counts once it is named",
    ("checkpoints.py", "record_compensation"): "goes with a fenced check of the chunk",
    ("dead_letters.py", "quarantine"): "the same message, written again",
    ("jobs.py", "creation"): "goes with the creation of the job, which is conditional",
    ("children.py", "child_writes"): "goes with the wait of the stage that maps",
    ("jobs.py", "active_mark"): "goes with a conditional transition",
    ("deletions.py", "_unlisting"): "an entry of the index, which decides nothing",
    ("deletions.py", "expiry_mark"): "goes with a conditional transition",
    (
        "outbox.py",
        "deliveries_to",
    ): "goes with the write of its event; same id, same row",
    ("outbox.py", "due_mark"): "goes with the write of its delivery",
    ("occasions.py", "watch_mark"): "goes with a webhook; the last token counts",
    ("outbox.py", "rung_mark"): "goes with its dead letter; same id, same row",
    ("pipelines.py", "_write"): "the mark goes with the conditional write of its row",
    ("outbox.py", "outbox_mark"): "goes with a delivery; the last token counts",
    ("compensations.py", "puts"): "goes with the conditional reopening of its chunk",
    ("costs.py", "add"): "what is counted decides nothing; a refused one is dropped",
    ("compensations.py", "resolve_by_hand"): "goes with the chunk and its letter",
    ("backlogs.py", "closing"): "goes with the conditional end of its job",
    ("dead_letters.py", "open_mark"): "goes with the write of its dead letter",
    ("dead_letters.py", "_closing"): "the mark goes with the end of its letter",
    ("waits.py", "entry"): "goes with the wait; the chunk's due_at is the truth",
    ("waits.py", "removal"): "an entry of the index, which decides nothing",
    ("questions.py", "question_put"): "goes with the fenced end of the claim",
    ("job_transitions.py", "counting_failure"): "goes with its dead letter, once",
    ("batches.py", "drop_asked"): "the batch that names them decides",
    ("batches.py", "request_writes"): "goes with the fenced end of the claim",
    ("batches.py", "end"): "goes with the removal of the open batch, once",
    ("settlements.py", "_error_put"): "goes with the fenced end of the claim",
    ("settlements.py", "dead_letter"): "goes with the fenced end of the claim",
}

#: The modules that may know the SDK.
ADAPTERS = {"aws", "store", "runtime.py"}
SDK = re.compile(
    r"^\s*(?:import|from) (?:botocore|aiobotocore|boto3|aioboto3)\b", re.MULTILINE
)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls(node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call in a tree, by its dotted name."""
    for found in ast.walk(node):
        if isinstance(found, ast.Call):
            yield ast.unparse(found.func), found


def writes(node: ast.AST) -> Iterator[ast.Call]:
    return (call for name, call in calls(node) if name.endswith(".item_write"))


def test_every_write_has_a_condition_or_a_reason() -> None:
    bare = {
        (path.name, function.name)
        for path in STORE
        for function in functions(path)
        for write in writes(function)
        if not {"condition", None} & {word.arg for word in write.keywords}
        and path.name != "table.py"
    }
    assert bare == set(UNCONDITIONAL)


def test_only_the_table_speaks_to_dynamodb() -> None:
    spoken = {
        path.name
        for path in LIBRARY
        if re.search(
            r"\.(update|put|delete|get|transact_write)_items?\b", path.read_text()
        )
    }
    assert spoken == {"table.py"}


def test_only_the_adapters_know_the_sdk() -> None:
    knowing = {path.relative_to(ROOT / "piecework") for path in LIBRARY if knows(path)}
    assert {path for path in knowing if path.parts[0] not in ADAPTERS} == set()
    assert [path.name for path in WORKERS if knows(path)] == []


def knows(path: Path) -> bool:
    return SDK.search(path.read_text()) is not None


# ── reserved words ───────────────────────────────────────────────────────────

#: Words of an expression that are not attributes: its keywords, the placeholders.
KEYWORDS = {
    *("SET", "ADD", "REMOVE", "DELETE", "AND", "OR", "NOT", "IN", "BETWEEN"),
    *(
        "size",
        "attribute_exists",
        "attribute_not_exists",
        "if_not_exists",
        "begins_with",
    ),
}
WORD = re.compile(r"[#:]?\b[a-z_][a-z0-9_]*\b", re.IGNORECASE)
EXPRESSION = re.compile(
    r"\b(SET|ADD|REMOVE|DELETE)\b|= :|attribute_(not_)?exists|<=? :"
)


def texts(path: Path) -> Iterator[str]:
    """Yield each text of a file that is part of an expression."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and EXPRESSION.search(node.value)
        ):
            yield node.value


def attributes(expression: str) -> set[str]:
    words = set(WORD.findall(expression))
    return {w for w in words if w[0] not in "#:" and w not in KEYWORDS}


def test_attributes_that_dynamodb_reserves_are_marked() -> None:
    found = {
        (path.name, name)
        for path in STORE
        for text in texts(path)
        for name in attributes(text)
        if name.upper() in RESERVED
    }
    assert found == set()


def test_the_names_that_jobs_put_into_expressions_are_not_reserved() -> None:
    # `_moving` writes `name = :name` for each fact that it is given.
    sources = [*STORE, *LIBRARY, *sorted((ROOT / "orchestrator").rglob("*.py"))]
    facts = {
        key.value
        for path in sources
        for name, call in calls(ast.parse(path.read_text()))
        if name.rpartition(".")[2]
        in {"_moving", "_move", "ending", "reopen", "cancel", "cancelled"}
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    facts |= {"opened_at", "sent_at", "reopened_at", "cancelled_at", "finished_at"}
    facts |= {"certificate", "certificate_sha256", "outcomes", "gen"}
    assert {name for name in facts if name.upper() in RESERVED} == set()


# ── time and chance ──────────────────────────────────────────────────────────

AMBIENT = re.compile(
    r"^(time\.(time|monotonic|sleep|time_ns)|(datetime\.)?(datetime|date)"
    r"\.(now|utcnow|today)|random\.\w+|uuid\.uuid[14]|secrets\.\w+|os\.urandom)$"
)
#: Where the outside is let in, and why.
LET_IN = {
    ("runtime.py", "random.Random"): "the edge: both processes start here",
    ("runtime.py", "time.time"): "the clock that a certificate disagrees with",
    ("health.py", "time.monotonic"): "the edge: a process of its own",
    ("stopping.py", "time.monotonic"): "a thread that ends a process whose loop hangs",
    ("request.py", "os.urandom"): "a request's id, which nothing here depends on",
    ("dependency.py", "uuid.uuid4"): "the key of a call outside of a chunk",
    ("reading.py", "random.Random"): "the edge: a command that only reads starts here",
    (
        "shutdown.py",
        "time.monotonic",
    ): "threads are waited for after the loop has ended",
}


@pytest.mark.parametrize("path", LIBRARY + WORKERS, ids=lambda p: p.name)
def test_time_and_chance_are_passed_in(path: Path) -> None:
    found = {
        (path.name, name)
        for name, _ in calls(ast.parse(path.read_text()))
        if AMBIENT.match(name)
    }
    assert found - set(LET_IN) == set()
