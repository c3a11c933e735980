"""Read the text of a PDF, page by page, and the values of its form.

A scan is refused, because it contains no text. A file whose text cannot be trusted is
refused, too; single pages of this kind are named in a warning.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from piecework import telemetry
from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.telemetry.emit import quiet_log
from piecework_orchestrator.submit.intake.limits import MIB, IntakeLimits
from piecework_orchestrator.submit.intake.pdf_trust import doubt
from piecework_orchestrator.submit.intake.word_container import encrypted_error

READER: Final = Path(__file__).with_name("pdf_process.py")
#: What Python needs to find PDFium. The reader gets no secret of the environment.
ENVIRONMENT: Final = ("HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")
#: Seconds on the clock for each second of CPU, on a machine with much else to do.
PATIENCE = 10
#: PDFium's codes for a password that is missing, and for an unknown cipher.
ENCRYPTED: Final = frozenset({4, 5})
#: PDFium's mark of a hyphen at the end of a line.
HYPHEN = "\ufffe"
#: Pages that a warning names, and those that a sentence names.
MOST_NAMED, MAX_SHOWN = 50, 10


def read(data: bytes, name: str, limits: IntakeLimits) -> str:
    """Return the text of all pages, then a line for each field with a value.

    Raises:
        UsageError: `input.file.encrypted`, `input.file.unreadable`, `input.file.empty`
            for a scan, `input.file.too_large`, `input.file.too_slow`,
            `input.text.doubtful`, `cli.extra.missing`.
    """
    found = _in_a_process(data, name, limits)
    if (pages := found.get("pages", 0)) > limits.pdf_pages:
        raise _too_large(name, f"{pages:,} pages", limits.pdf_pages)
    if found.get("characters"):
        raise _too_large(name, "too many characters", limits.pdf_characters)
    if found.get("failed") in ENCRYPTED:
        raise encrypted_error(name)
    if "texts" not in found:
        raise _unreadable(name, "it is damaged")
    texts = [_lines(text) for text in found["texts"]]
    _require_text(texts, name)
    _require_trust(texts, found["glued"], name)
    fields = [_lines(f"{key}: {value}") for key, value in found["fields"].items()]
    return "\n".join([text for text in texts if text] + fields)


def _in_a_process(data: bytes, name: str, limits: IntakeLimits) -> dict[str, Any]:
    """Return what the process of the reader has found; it has ended."""
    with naming_extras():
        import pypdfium2  # noqa: F401 -- the process has no way to name the extra

    memory = limits.pdf_memory_bytes + 4 * len(data)
    values = (
        limits.pdf_cpu_s,
        memory,
        limits.pdf_pages,
        limits.pdf_characters,
    )
    try:
        # Our own file in our own Python; no text from outside is an argument.
        ended = subprocess.run(  # noqa: S603, TID251
            [sys.executable, "-P", str(READER), *map(str, values)],
            input=data,
            capture_output=True,
            check=False,
            env={key: os.environ[key] for key in ENVIRONMENT if key in os.environ},
            timeout=limits.pdf_cpu_s * PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise _too_slow(name, limits) from error
    if ended.returncode == -signal.SIGXCPU:
        raise _too_slow(name, limits)
    if ended.returncode:
        limit = f"{memory // MIB:,} MiB"
        raise _unreadable(name, f"its reader failed, or needs more than {limit}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _lines(text: str) -> str:
    """Return a text with line feeds, and a hyphen where a line ended with one."""
    text = text.replace(HYPHEN, "-\n").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd").strip()


def _too_large(name: str, size: str, limit: int) -> UsageError:
    message = f"{name} has {size}; the limit is {limit:,}."
    step = "Divide it into several files; a directory of them is one job."
    return UsageError(message, code="input.file.too_large", next_step=step, file=name)


def _too_slow(name: str, limits: IntakeLimits) -> UsageError:
    return UsageError(
        f"Reading {name} took more than {limits.pdf_cpu_s} s of CPU, and was ended.",
        code="input.file.too_slow",
        next_step="Open it in a viewer and print it to a new PDF, or divide it.",
        file=name,
    )


def _unreadable(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{name} is not a complete PDF: {reason}.",
        code="input.file.unreadable",
        next_step="Open it in a viewer and print it to a new PDF.",
        file=name,
    )


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
            quiet_log(),
            "input.pages.without_text",
            file=name,
            count=len(without),
            pages=without[:MOST_NAMED],
        )


def _require_trust(pages: list[str], glued: list[int], name: str) -> None:
    """Refuse a file if half of its text cannot be trusted; else warn of the pages."""
    doubts: dict[str, list[int]] = {}
    for number, text in enumerate(pages, start=1):
        if reason := doubt(text):
            doubts.setdefault(reason, []).append(number)
    doubted = {number for numbers in doubts.values() for number in numbers}
    length = sum(map(len, pages))
    if 2 * sum(len(pages[number - 1]) for number in doubted) >= length:
        reasons = "; ".join(
            f"{reason} on {_pages(numbers)}" for reason, numbers in doubts.items()
        )
        raise UsageError(
            f"The text of {name} is not what a reader sees: {reasons}.",
            code="input.text.doubtful",
            next_step="Run OCR over its pages, and submit the result. Or check the "
            "text, and submit it as .txt.",
            file=name,
            pages=sorted(doubted)[:MOST_NAMED],
        )
    if glued:
        doubts["numbers that may be of two cells"] = glued
    for reason, numbers in doubts.items():
        telemetry.emit(
            quiet_log(),
            "input.pages.doubtful",
            file=name,
            reason=reason,
            count=len(numbers),
            pages=numbers[:MOST_NAMED],
        )


def _pages(numbers: list[int]) -> str:
    """Return the numbers of pages for a sentence."""
    shown = ", ".join(map(str, numbers[:MAX_SHOWN]))
    more = f" and {len(numbers) - MAX_SHOWN} more" * (len(numbers) > MAX_SHOWN)
    return f"page{'s' * (len(numbers) > 1)} {shown}{more}"
