"""Keep what the models of DynamoDB and S3 hold in one file of SQLite.

Each request that writes is one transaction of the file, before its answer. So the file
is always a state that the models have had. Queues are not kept: the record tells which
chunks need a message.

The file survives the death of its process. A death of the machine may cost the last
writes, but none that follows an intent of an effect: those are on the disk at once.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from piecework.domain import keys
from piecework.errors import UsageError
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.aws.s3 import Object
from piecework_simulation.aws.values import WireItem
from piecework_simulation.in_process import InProcessAws
from piecework_simulation.state.lock import locked

#: The format of the file; another one is refused.
VERSION = 1
#: Tells a state file from other files of SQLite: `pwrk`.
APPLICATION = 0x7077726B
#: The longest part of a file that SQLite keeps for the next writes, in bytes.
JOURNAL_BYTES = 16 * 1024 * 1024
TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (
    place TEXT, pk TEXT, sk TEXT, item BLOB NOT NULL, PRIMARY KEY (place, pk, sk)
);
CREATE TABLE objects (
    name TEXT PRIMARY KEY, content BLOB NOT NULL, media_type TEXT NOT NULL,
    written_at REAL NOT NULL
);
"""
SET_FACT = (
    "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
)
SET_ITEM = (
    "INSERT INTO items VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET item = excluded.item"
)
DROP_ITEM = "DELETE FROM items WHERE place = ? AND pk = ? AND sk = ?"
SET_OBJECT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)"
DROP_OBJECT = "DELETE FROM objects WHERE name = ?"


class StateFile:
    """The open state file of a run.

    Attributes:
        path: The file; SQLite has others beside it while it is open.
        is_over: Whether the file goes when it is closed.
        on_failure: Called once, when a write has failed: the models are then ahead of
            the file, and their process must end.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.on_failure: Callable[[UsageError], None] = lambda _: None
        self._connection = connection
        self._failure: UsageError | None = None
        self.is_over = False
        self._prepare()

    @property
    def has_no_job(self) -> bool:
        """Whether no job was created: the input was refused, for example."""
        found = self._connection.execute(
            "SELECT 1 FROM items WHERE sk = ? LIMIT 1", (keys.META_SK,)
        )
        return found.fetchone() is None

    @property
    def facts(self) -> dict[str, str]:
        """What the file says about its run, by name."""
        return dict(self._connection.execute("SELECT name, value FROM facts"))

    def rows(self) -> Iterator[tuple[str, WireItem]]:
        """Yield each row with the name of its table."""
        found = self._connection.execute("SELECT place, item FROM items")
        yield from ((place, read_item(item)) for place, item in found)

    def objects(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield name, content and media type of each object."""
        every = "SELECT name, content, media_type FROM objects"
        yield from self._connection.execute(every)

    def require_owner(self) -> None:
        """Require that the run goes on here: it was not pushed to a deployment.

        Raises:
            UsageError: `run.state.pushed`.
        """
        facts = self.facts
        if "push_token" not in facts:
            return
        job, place = facts["job"], facts["pushed_to"]
        message = f"The run of {self.path} is job {job} of {place} now."
        step = f"Watch it there: piecework jobs watch {job}. `--fresh` starts anew."
        if "pushed_at" not in facts:
            message = f"The push of {self.path} to {place} has begun and not ended."
            step = f"Go on with it: piecework push --state {self.path}"
        raise UsageError(message, code="run.state.pushed", next_step=step)

    def note(self, **facts: str) -> None:
        """Keep facts about the run."""
        self._write([(SET_FACT, each) for each in facts.items()])

    def forget_if_over(self) -> None:
        """Remove the closed file of a run that is over."""
        if self.is_over:
            remove(self.path)

    def attach(self, aws: InProcessAws) -> None:
        """Fill the models from the file; from now on keep what they write."""
        for place, pk, sk, item in self._connection.execute("SELECT * FROM items"):
            aws.dynamodb.restore(place, pk, sk, read_item(item))
        found = self._connection.execute("SELECT * FROM objects")
        for name, content, media_type, written_at in found:
            aws.s3.restore(aws.bucket, name, Object(content, media_type, written_at))
        aws.dynamodb.on_write = self.keep_items
        aws.s3.on_write = self.keep_object

    def keep_items(self, changes: Sequence[Change]) -> None:
        """Keep the items of one request."""
        statements = list[tuple[str, Any]]()
        is_effect = False
        for table, pk, sk, _, new, _ in changes:
            is_effect = is_effect or keys.EFFECT_ROWS in sk
            if new is None:
                statements.append((DROP_ITEM, (table, pk, sk)))
            else:
                item = to_json(new, bytes_mode="base64")
                statements.append((SET_ITEM, (table, pk, sk, item)))
        self._write(statements, at_once=is_effect)

    def keep_object(self, bucket: str, name: str, found: Object | None) -> None:
        """Keep an object of the one bucket; None: it is deleted."""
        del bucket
        if found is None:
            self._write([(DROP_OBJECT, (name,))])
            return
        facts = (found.content, found.media_type, found.written_at)
        self._write([(SET_OBJECT, (name, *facts))])

    def _write(
        self, statements: Sequence[tuple[str, Any]], *, at_once: bool = False
    ) -> None:
        """Execute statements as one transaction; `at_once`: also flush the disk.

        Raises:
            UsageError: `run.state.unwritable`; nothing of it is in the file.
        """
        if self._failure is not None:
            raise self._failure
        run = self._connection.execute
        try:
            if at_once:
                run("PRAGMA synchronous = FULL")
            if len(statements) == 1:
                run(*statements[0])
            else:
                with self._connection:
                    run("BEGIN")
                    for statement in statements:
                        run(*statement)
            if at_once:
                run("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            self._failure = unwritable(self.path, error)
            self.on_failure(self._failure)
            raise self._failure from error

    def _prepare(self) -> None:
        """Create the tables of an empty file; refuse one that is not ours.

        Raises:
            UsageError: `run.state.foreign`, `run.state.version`,
                `run.state.unwritable`.
        """
        run, path = self._connection.execute, self.path
        try:
            # In this mode no other process reads it, and it needs no shared memory.
            run("PRAGMA locking_mode = EXCLUSIVE")
            application = run("PRAGMA application_id").fetchone()[0]
            version = run("PRAGMA user_version").fetchone()[0]
            known = run("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if (application or known) and application != APPLICATION:
                raise foreign(path)
            if application and version != VERSION:
                message = (
                    f"{path} has the format {version}, and this version of Piecework"
                    f" reads {VERSION}."
                )
                raise UsageError(message, code="run.state.version")
            if not application:
                begun = f"BEGIN; PRAGMA application_id = {APPLICATION};"
                rest = f"PRAGMA user_version = {VERSION}; COMMIT;"
                self._connection.executescript(begun + TABLES + rest)
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = NORMAL")
            run(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise foreign(path) from error
            raise unwritable(path, error) from error


@contextmanager
def opened(path: Path, *, fresh: bool = False) -> Iterator[StateFile]:
    """Open a state file that no other process has; create it if there is none.

    Only its owner may read it: it holds payloads and answers. `fresh`: forget what it
    holds.

    Raises:
        UsageError: `run.state.in_use`, `run.state.foreign`, `run.state.version`,
            `run.state.unwritable`.
    """
    with ExitStack() as stack:
        try:
            if path.is_dir():  # `/` has not even a name
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(locked(path))
            if fresh:
                remove(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            path.chmod(0o600)
            connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise unwritable(path, error) from error
        with closing(connection):
            file = StateFile(path, connection)
            stack.callback(file.forget_if_over)  # it is closed before
            yield file


def remove(path: Path) -> None:
    """Remove a state file, and what SQLite has beside it.

    Raises:
        UsageError: `run.state.foreign`.
    """
    if path.exists() and path.stat().st_size and not is_state_file(path):
        raise foreign(path)
    for ending in ("-wal", "-shm", "-journal", ""):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def is_state_file(path: Path) -> bool:
    """Return whether a file is one of ours, by the head of its first page."""
    with path.open("rb") as file:
        head = file.read(72)
    return head.startswith(b"SQLite format 3\0") and (
        int.from_bytes(head[68:72], "big") == APPLICATION
    )


def foreign(path: Path) -> UsageError:
    """Return the error of a file that is something else."""
    message = f"{path} is not the state file of a run."
    return UsageError(message, code="run.state.foreign")


def unwritable(path: Path, error: Exception) -> UsageError:
    """Return the error of a file that the system does not let us write."""
    why = error.strerror if isinstance(error, OSError) else str(error)
    message = f"The state file {path} cannot be written: {why}."
    return UsageError(message, code="run.state.unwritable")


def read_item(text: bytes) -> WireItem:
    """Return an item as the model of DynamoDB holds it."""
    found: WireItem = json.loads(text)
    if b'"B":' in text or b'"BS":' in text:
        found = {name: with_bytes(value) for name, value in found.items()}
    return found


def with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value whose texts of bytes are bytes again."""
    ((kind, content),) = value.items()
    match kind:
        case "B":
            return {kind: base64.urlsafe_b64decode(content)}
        case "BS":
            return {kind: [base64.urlsafe_b64decode(each) for each in content]}
        case "L":
            return {kind: [with_bytes(each) for each in content]}
        case "M":
            return {kind: {name: with_bytes(each) for name, each in content.items()}}
        case _:
            return value
