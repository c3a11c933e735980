"""The types of an action: its subject, what it would touch, and its form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from piecework.domain.keys import JOIN_CHUNK
from piecework.errors import UsageError
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.reading.selection import LetterFilter
from piecework_orchestrator.reading.times import count

#: Digits of a number that no chunk has.
MOST_DIGITS: Final = 9
#: What an address can name beside a chunk.
NAMES: Final = ("job", "fingerprint", "effect", "question", "pipeline", "stage")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an action's form.

    Attributes:
        kind: That of an HTML input, or `json`, or `select`.
        options: Of a select: each value, and what people read.
        step: Of a number: between two values; `any` allows fractions.
    """

    name: str
    label: str
    kind: str = "text"
    help: str = ""
    value: str = ""
    options: tuple[tuple[str, str], ...] = ()
    step: str = "1"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would touch now.

    Attributes:
        sentences: For the operator, before the form.
        rows: The things that it touches, as documents with the keys of `columns`.
        fields: The fields of the form, without the reason.
        shown: The mark of the dead letters that it would touch; empty: none.
        question: The question that it answers; None: it answers no question.
        choices: What the address has to name first, as queries; empty: it names all.
        is_closed: There is nothing left to do, so it has no form.
    """

    sentences: tuple[str, ...]
    rows: tuple[Document, ...] = ()
    columns: tuple[str, ...] = ()
    fields: Sequence[Field] = ()
    shown: str = ""
    question: Document | None = None
    choices: tuple[tuple[str, Mapping[str, str]], ...] = ()
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What an action is about, from its address.

    Attributes:
        job, fingerprint, effect, question, pipeline, stage: Empty: not given.
        chunk: The number of a chunk; None: not given.
        picked: A selection: names of jobs, or `job/chunk`; empty: there is none.
    """

    job: str = ""
    chunk: int | None = None
    fingerprint: str = ""
    effect: str = ""
    question: str = ""
    pipeline: str = ""
    stage: str = ""
    picked: tuple[str, ...] = ()

    @property
    def query(self) -> dict[str, str]:
        """The query of the address."""
        found = {name: getattr(self, name) for name in NAMES} | {"chunk": self.named}
        found["pick"] = ",".join(self.picked)
        return {name: value for name, value in found.items() if value}

    @property
    def named(self) -> str:
        """Its chunk as addresses and people name it; empty: it has none."""
        return "" if self.chunk is None else str(chunk_name(self.chunk))

    @property
    def picked_chunks(self) -> dict[str, list[int]]:
        """The numbers of the selected chunks by their job."""
        found: dict[str, list[int]] = {}
        for name in self.picked:
            job, _, chunk = name.rpartition("/")
            found.setdefault(job, []).append(chunk_number(chunk))
        return found

    @property
    def one_chunk(self) -> int:
        """The number of its chunk.

        Raises:
            UsageError: `cli.usage.invalid`: the address names no chunk.
        """
        if self.chunk is None:
            message = "This action is about one chunk, and its address names none."
            raise UsageError(message, next_step="Choose it on the page of the chunk.")
        return self.chunk

    @property
    def filters(self) -> LetterFilter:
        """The filters of dead letters."""
        filters: LetterFilter = {}
        if self.fingerprint:
            filters["fingerprint"] = self.fingerprint
        if self.chunk is not None:
            filters["chunks"] = [self.chunk]
        return filters

    def __str__(self) -> str:
        """Return the subject in words."""
        words = {"job": self.job, "chunk": self.named, "cause": self.fingerprint}
        words |= {"question": self.question, "pipeline": self.pipeline}
        words |= {"from stage": self.stage}
        found = [f"{word} {name}" for word, name in words.items() if name]
        if self.picked:
            kind = "chunk" if "/" in self.picked[0] else "job"
            found = [count(len(self.picked), f"selected {kind}"), *found]
        return ", ".join(found) or "all jobs"


def chunk_number(name: str) -> int:
    """Return the number of a chunk in an address; the join has a word, as in commands.

    Raises:
        UsageError: `cli.usage.invalid`: it is not one.
    """
    if name == chunk_name(JOIN_CHUNK):
        return JOIN_CHUNK
    if name.isascii() and name.isdigit() and len(name) < MOST_DIGITS:
        return int(name)
    message = f"{name[:20]} is not the number of a chunk."
    raise UsageError(message, next_step="Choose it on the page of its job.")


Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Action:
    """An action.

    Attributes:
        title: Of its page and its button.
        preview: Reads what it would touch.
        perform: Does it; returns a sentence about the outcome.
        offered: The statuses of a job in which its page offers the action.
        is_final: Whether it ends or removes something for good.
        shows_payload: Whether its form shows a payload.
        page: The template of its page.
    """

    title: str
    preview: Callable[[Client, Subject], Awaitable[Preview]]
    perform: Callable[[Client, Subject, Fields], Coroutine[None, None, str]]
    offered: frozenset[str] = frozenset()
    is_final: bool = False
    shows_payload: bool = False
    page: str = "action.html"
