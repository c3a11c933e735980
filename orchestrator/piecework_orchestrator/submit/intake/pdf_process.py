"""Read a PDF in a process of its own: PDFium's C++ meets bytes from outside.

Its limits of CPU and memory end the process, whatever the file does. It reads the PDF
from standard input and writes one JSON object to standard output. Nothing else of
Piecework is imported, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import json
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

#: A number that two cells may have become.
DIGITS = re.compile(r"\d[\d.,]*\d")


def main(arguments: list[str]) -> None:
    """Print the text of the PDF on standard input, or why it cannot be read."""
    cpu_s, memory, pages, characters = map(int, arguments)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_AS, memory)
    limit(resource.RLIMIT_CPU, cpu_s)
    import pypdfium2

    try:
        found = read(sys.stdin.buffer.read(), pages, characters)
    except pypdfium2.PdfiumError as error:
        found = {"failed": getattr(error, "err_code", None) or 0}
    sys.stdout.write(json.dumps(found))


def limit(kind: int, value: int) -> None:
    """Set a limit, unless the process has a lower one."""
    _, hard = resource.getrlimit(kind)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # macOS has no limit of memory; there, the time on the clock ends it.
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (lowest, hard))


def read(data: bytes, most_pages: int, most_characters: int) -> dict[str, Any]:
    """Return the texts of the pages, the fields of the form, and glued numbers."""
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    document.init_forms()
    if len(document) > most_pages:
        return {"pages": len(document)}
    texts: list[str] = []
    glued: list[int] = []
    fields: dict[str, str] = {}
    total = 0
    for number in range(len(document)):
        page = document[number]
        text_page = page.get_textpage()
        text = text_page.get_text_range()
        total += len(text)
        if total > most_characters:
            return {"characters": total}
        texts.append(text)
        if has_glued(text_page, text):
            glued.append(number + 1)
        if document.formenv is not None:
            fields |= filled(document.formenv, page)
        text_page.close()
        page.close()
    return {"texts": texts, "glued": glued, "fields": fields}


# ── numbers of two cells that touch ───────────────────────────────────────────

#: A gap between two digits above this part of their height is not of one number, if
#: the others of the number are narrower by half: digits may all be wide apart.
GAP = 0.08


def has_glued(text_page: Any, text: str) -> bool:
    """Return whether a number has a gap inside, as two cells of a table have."""
    if text_page.count_chars() != len(text):
        return False  # places in the text are not those of the boxes
    for match in DIGITS.finditer(text):
        gaps = sorted(gaps_of(text_page, range(*match.span())))
        if gaps[-1] > GAP and (len(gaps) == 1 or gaps[-1] > 2 * gaps[-2]):
            return True
    return False


def gaps_of(text_page: Any, places: range) -> Iterator[float]:
    """Yield the gaps between characters, in parts of their height."""
    last = None
    for place in places:
        left, bottom, right, top = text_page.get_charbox(place, loose=True)
        if last is not None:
            yield (left - last) / (top - bottom) if top > bottom else 0.0
        last = right


# ── the values of a form ──────────────────────────────────────────────────────


def filled(form: Any, page: Any) -> Iterator[tuple[str, str]]:
    """Yield name and value of each field of a page that is filled in."""
    from pypdfium2 import raw as pdfium

    without_value = {
        -1,  # another annotation
        pdfium.FPDF_FORMFIELD_UNKNOWN,
        pdfium.FPDF_FORMFIELD_PUSHBUTTON,
        pdfium.FPDF_FORMFIELD_SIGNATURE,
    }
    boxes = {pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON}
    for index in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        try:
            kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
            if kind in without_value:
                continue
            name = utf16(pdfium.FPDFAnnot_GetFormFieldName, form, annotation)
            if kind in boxes:
                checked = pdfium.FPDFAnnot_IsChecked(form, annotation)
                export = pdfium.FPDFAnnot_GetFormFieldExportValue
                value = utf16(export, form, annotation) or "Yes" if checked else ""
            else:
                value = chosen(form, annotation) or utf16(
                    pdfium.FPDFAnnot_GetFormFieldValue, form, annotation
                )
            if value.strip():
                yield name, value
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)


def chosen(form: Any, annotation: Any) -> str:
    """Return the chosen options of a list."""
    from pypdfium2 import raw as pdfium

    return ", ".join(
        utf16(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, place)
        for place in range(pdfium.FPDFAnnot_GetOptionCount(form, annotation))
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, place)
    )


def utf16(function: Any, *arguments: Any) -> str:
    """Return the text that a function of PDFium writes into a buffer."""
    size = function(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return buffer.raw[: max(size - 2, 0)].decode("utf-16-le", "replace")


if __name__ == "__main__":
    main(sys.argv[1:])
