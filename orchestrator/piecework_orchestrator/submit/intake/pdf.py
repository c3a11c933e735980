"""Read the text of a PDF, page by page, and the values of its form.

A scan is refused, because it contains no text.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog

from piecework import telemetry
from piecework.errors import PieceworkError, UsageError
from piecework.errors.extras import naming_extras
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.word_container import encrypted_error

if TYPE_CHECKING:
    from pypdf import PdfReader


def read(data: bytes, name: str, limits: IntakeLimits) -> str:
    """Return the text of all pages, then a line for each field with a value.

    Raises:
        UsageError: `input.file.encrypted`, `input.file.unreadable`, `input.file.empty`
            for a scan, `input.file.too_large`, `cli.extra.missing`.
    """
    with naming_extras():
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError

    # pypdf logs each repair as a warning, hundreds for some files.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(data))
        _unlock(reader, name)
        pages = list(_pages(reader, name, limits))
        fields = list(_field_values(reader))
    except PieceworkError:
        raise
    except (DependencyError, FileNotDecryptedError) as error:
        raise encrypted_error(name) from error
    except Exception as error:
        # The input is untrusted, so the parser may raise any exception.
        raise UsageError(
            f"{name} is not a complete PDF ({type(error).__name__}).",
            code="input.file.unreadable",
            next_step="Open it in a viewer and print it to a new PDF.",
            file=name,
        ) from error
    _require_text(pages, name)
    return "\n".join([page for page in pages if page] + fields)


def _unlock(reader: PdfReader, name: str) -> None:
    """Decrypt with the empty password, as for a file that only restricts printing."""
    if reader.is_encrypted and not reader.decrypt(""):
        raise encrypted_error(name)


def _pages(reader: PdfReader, name: str, limits: IntakeLimits) -> Iterator[str]:
    count = len(reader.pages)
    if count > limits.pdf_pages:
        raise _too_large(name, f"{count:,} pages", limits.pdf_pages)
    total = 0
    for page in reader.pages:
        text = _well_formed(page.extract_text()).strip()
        total += len(text)
        if total > limits.pdf_characters:
            raise _too_large(name, "too many characters", limits.pdf_characters)
        yield text


def _field_values(reader: PdfReader) -> Iterator[str]:
    """Yield the fields that are filled in: the text of a page contains no value."""
    for name, field in (reader.get_fields() or {}).items():
        value = field.get("/V")
        if field.get("/FT") == "/Btn":  # a box that is not checked is /Off
            value = None if value == "/Off" else str(value or "").removeprefix("/")
        if isinstance(value, list):  # several choices
            value = ", ".join(map(str, value))
        if isinstance(value, str) and value.strip():  # a signature is an object
            yield _well_formed(f"{name}: {value}")


def _too_large(name: str, size: str, limit: int) -> UsageError:
    message = f"{name} has {size}; the limit is {limit:,}."
    step = "Divide it into several files; a directory of them is one job."
    return UsageError(message, code="input.file.too_large", next_step=step, file=name)


def _well_formed(text: str) -> str:
    """Join surrogate pairs of a font's table; replace single surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _require_text(pages: list[str], name: str) -> None:
    """Refuse a scan; name single pages without text in a warning."""
    without = [number for number, text in enumerate(pages, start=1) if not text]
    if len(without) == len(pages):
        raise UsageError(
            f"{name} is a scan: none of its {len(pages)} pages contains text.",
            code="input.file.empty",
            next_step="Run OCR on the file, then submit the result.",
            file=name,
        )
    if without:
        telemetry.emit(
            structlog.get_logger(),
            "input.pages.without_text",
            file=name,
            count=len(without),
            pages=without,
        )
