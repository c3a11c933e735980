"""PDF: the text of each page, in page order; a scan holds none and is refused."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog

from orchestrator.intake.limits import Limits
from piecework import telemetry
from piecework.errors import PieceworkError, UsageError

if TYPE_CHECKING:
    from pypdf import PdfReader


def read(data: bytes, name: str, limits: Limits) -> str:
    """Return the text of all pages.

    Raises:
        UsageError: When it is encrypted, broken, a scan, or too large.
    """
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    # Each repair of a sloppy file is a warning there, hundreds a file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(data))
        _unlock(reader, name)
        pages = list(_pages(reader, name, limits))
    except PieceworkError:
        raise
    except (DependencyError, FileNotDecryptedError) as error:
        raise _encrypted(name) from error
    except Exception as error:
        # The parser meets hostile bytes, and fails in as many ways as there are.
        raise UsageError(
            f"{name} is not a whole PDF ({type(error).__name__}).",
            code="input.file.unreadable",
            next_step="Open it in a viewer and print it to a new PDF.",
            file=name,
        ) from error
    _require_text(pages, name)
    return "\n".join(page for page in pages if page)


def _unlock(reader: PdfReader, name: str) -> None:
    """Open a file that only restricts printing: its password is empty."""
    if reader.is_encrypted and not reader.decrypt(""):
        raise _encrypted(name)


def _encrypted(name: str) -> UsageError:
    return UsageError(
        f"{name} is encrypted.",
        code="input.file.encrypted",
        next_step="Save a copy without a password.",
        file=name,
    )


def _pages(reader: PdfReader, name: str, limits: Limits) -> Iterator[str]:
    count = reader.get_num_pages()
    if count > limits.pdf_pages:
        raise _too_large(name, f"{count:,} pages; {limits.pdf_pages:,}")
    total = 0
    for page in reader.pages:
        said = _well_formed(page.extract_text()).strip()
        total += len(said)
        if total > limits.pdf_characters:
            raise _too_large(name, f"more than {limits.pdf_characters:,} letters; that")
        yield said


def _too_large(name: str, what: str) -> UsageError:
    return UsageError(
        f"{name} has {what} is the most.",
        code="input.file.too_large",
        next_step="Divide it into several files; a directory of them is one job.",
        file=name,
    )


def _well_formed(said: str) -> str:
    """Join halves of characters that a font's table gave apart, mark odd ones."""
    return said.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _require_text(pages: list[str], name: str) -> None:
    """Refuse a scan, and name the pages that may be one within a text."""
    without = [number for number, said in enumerate(pages, start=1) if not said]
    if len(without) == len(pages):
        raise UsageError(
            f"{name} holds no text on any of its {len(pages)} pages: it is a scan.",
            code="input.file.empty",
            next_step="Run OCR on it first, then submit the result.",
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
