"""A pipeline of clauses, and generated documents."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import docx
import pytest
from docx.document import Document as WordDocument
from pydantic import BaseModel, ConfigDict
from pypdf import PdfReader, PdfWriter

from piecework import Context, Document, Pipeline, Stage
from piecework.domain.chunk_input import ChunkInput
from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.source import chunk_inputs


class Clause(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    position: int = 0


def clauses(document: Document) -> Iterable[Clause]:
    for position, block in enumerate(document.text.split("\n\n")):
        yield Clause(text=block, position=position)


async def read(ctx: Context[Clause]) -> str:
    return ctx.payload.text


@pytest.fixture(name="clause")
def _clause() -> type[Clause]:
    return Clause


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline(name="review", payload=Clause, split=clauses, stages=[Stage(read)])


@pytest.fixture
def manifest_only(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, split=None)


class Intake(Protocol):
    def __call__(
        self, source: object, pipeline: Pipeline = ..., **options: Any
    ) -> Awaitable[list[ChunkInput]]: ...


@pytest.fixture
def intake(pipeline: Pipeline) -> Intake:
    default = pipeline

    async def all_of(
        source: object, pipeline: Pipeline = default, **options: Any
    ) -> list[ChunkInput]:
        return [c async for c in chunk_inputs(str(source), pipeline, **options)]

    return all_of


async def refusal(result: Awaitable[object]) -> UsageError:
    """Return the error that an input is refused with."""
    with pytest.raises(UsageError) as refused:
        await result
    return refused.value


@pytest.fixture
def make_word() -> Callable[[Callable[[WordDocument], object]], bytes]:
    def make(write: Callable[[WordDocument], object]) -> bytes:
        document = docx.Document()
        write(document)
        packed = io.BytesIO()
        document.save(packed)
        return packed.getvalue()

    return make


@pytest.fixture
def make_pdf() -> Callable[..., bytes]:
    return written_pdf


@pytest.fixture
def encrypt_pdf() -> Callable[..., bytes]:
    def encrypt(data: bytes, password: str, algorithm: str) -> bytes:
        writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
        writer.encrypt(password, owner_password="owner", algorithm=algorithm)
        packed = io.BytesIO()
        writer.write(packed)
        return packed.getvalue()

    return encrypt


def written_pdf(
    *pages: str, font: str = "", annotations: str = "", more: Sequence[bytes] = ()
) -> bytes:
    """Return a minimal PDF: a catalogue, a font, and a page for each text.

    Args:
        pages: Each is a text, or a content stream that starts with `BT`.
        font: More of the font's dictionary.
        annotations: The fields of a form on the first page, as references.
        more: More objects; the first has the number 4 + 2 * pages.
    """
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    form = f" /AcroForm << /Fields [{annotations}] >>" if annotations else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R{form} >>".encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {font} >>".encode(),
    ]
    for i, text in enumerate(pages):
        shown = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        shown = text if text.startswith("BT") else shown
        on_page = f"/Annots [{annotations}]" if i == 0 else ""
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources "
            f"<< /Font << /F1 3 0 R >> /XObject << /X {len(pages) * 2 + 4} 0 R >> >> "
            f"{on_page} /Contents {5 + 2 * i} 0 R >>".encode()
        )
        objects.append(stream_object("", shown.encode()))
    objects += more
    out, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    size = len(objects) + 1
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()


def stream_object(entries: str, content: bytes) -> bytes:
    """Return an object with a stream."""
    head = f"<< {entries} /Length {len(content)} >>\nstream\n".encode()
    return head + content + b"\nendstream"
