from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake import pdf
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.pdf_trust import doubt
from tests.unit.orchestrator.submit.intake.conftest import stream_object, written_pdf

MakePdf = Callable[..., bytes]


def read(data: bytes, limits: IntakeLimits | None = None) -> str:
    return pdf.read(data, "a.pdf", limits or IntakeLimits())


def refusal(data: bytes, limits: IntakeLimits | None = None) -> UsageError:
    with pytest.raises(UsageError) as refused:
        read(data, limits)
    return refused.value


def test_pages_are_read_in_order(make_pdf: MakePdf) -> None:
    assert read(make_pdf("Term", "Notice")) == "Term\nNotice"


def test_the_values_of_a_form_come_after_the_pages(make_pdf: MakePdf) -> None:
    shapes = "/AP<</N<</Yes 5 0 R/Off 5 0 R>>>>"
    fields = [
        "/FT/Tx/T(fee)/V(5 EUR)",
        "/FT/Tx/T(note)",
        f"/FT/Btn/T(agreed)/V/Yes/AS/Yes{shapes}",
    ]
    fields += [
        f"/FT/Btn/T(refused)/V/Off/AS/Off{shapes}",
        "/FT/Btn/T(send)/Ff 65536/V(x)",
    ]
    fields += ["/FT/Ch/Ff 2097152/T(places)/Opt[(Rome)(Paris)(Oslo)]/V[(Rome)(Oslo)]"]
    box = "/Type/Annot/Subtype/Widget/Rect[0 0 9 9]"
    objects = [f"<< {box}{each} >>".encode() for each in fields]
    kids = " ".join(f"{n} 0 R" for n in range(6, 6 + len(fields)))
    data = make_pdf("Term", annotations=kids, more=objects)
    assert read(data) == "Term\nfee: 5 EUR\nagreed: Yes\nplaces: Rome, Oslo"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_file_that_only_restricts_printing_is_readable(
    make_pdf: MakePdf, encrypt_pdf: MakePdf, algorithm: str
) -> None:
    assert read(encrypt_pdf(make_pdf("Term"), "", algorithm)) == "Term"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_file_with_a_password_is_refused(
    make_pdf: MakePdf, encrypt_pdf: MakePdf, algorithm: str
) -> None:
    refused = refusal(encrypt_pdf(make_pdf("Term"), "secret", algorithm))
    assert refused.code == "input.file.encrypted"


def test_a_file_with_an_unsupported_cipher_is_encrypted(
    make_pdf: MakePdf, encrypt_pdf: MakePdf
) -> None:
    data = encrypt_pdf(make_pdf("Term"), "", "RC4-128").replace(
        b"/Standard", b"/Stranger"
    )
    assert refusal(data).code == "input.file.encrypted"


def test_a_scan_is_refused_with_ocr_as_next_step(make_pdf: MakePdf) -> None:
    refused = refusal(make_pdf("", ""))
    assert refused.code == "input.file.empty"
    assert "OCR" in refused.next_step


def test_single_pages_without_text_are_named_in_a_warning(make_pdf: MakePdf) -> None:
    with capture_logs() as logs:
        assert read(make_pdf("Term", "", "Notice", "")) == "Term\nNotice"
    assert [[2, 4]] == [entry["pages"] for entry in logs]


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_read_or_refused_without_a_crash(
    make_pdf: MakePdf, keep: float
) -> None:
    data = make_pdf("Term", "Notice")
    refused = None
    try:
        read(data[: int(len(data) * keep)])
    except UsageError as error:
        refused = error.code
    assert refused in {None, "input.file.unreadable", "input.file.empty"}


@pytest.mark.parametrize("data", [b"not a pdf", b"%PDF-1.7\n", b"\x00" * 2000])
def test_a_file_that_is_not_a_pdf_is_unreadable(data: bytes) -> None:
    assert refusal(data).code == "input.file.unreadable"


def test_too_many_pages_are_refused_with_count_and_limit(make_pdf: MakePdf) -> None:
    refused = refusal(make_pdf("a", "b", "c"), IntakeLimits(pdf_pages=2))
    assert refused.code == "input.file.too_large"
    assert refused.message == "a.pdf has 3 pages; the limit is 2."


def test_too_much_text_is_refused(make_pdf: MakePdf) -> None:
    refused = refusal(make_pdf("abc", "def"), IntakeLimits(pdf_characters=5))
    assert refused.code == "input.file.too_large"


def test_a_repaired_file_is_read(make_pdf: MakePdf) -> None:
    sloppy = make_pdf("Term").replace(b"startxref\n", b"startxref\n7")
    assert read(sloppy) == "Term"


# ── a file that takes CPU or memory without end ───────────────────────────────


def bomb(levels: int) -> bytes:
    """Return a PDF of a few KB: each form of it shows the next one ten times."""
    first = 6
    forms = []
    for n in range(levels):
        shown = b"/X Do " * 10 if n < levels - 1 else b"0 0 m 9 9 l S " * 50
        inner = f"/Resources << /XObject << /X {first + n + 1} 0 R >> >>"
        entries = f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] {inner}"
        forms.append(stream_object(entries, shown))
    return written_pdf("BT /F1 12 Tf (Term) Tj ET /X Do", more=forms)


def children() -> set[str]:
    """Return the children of this process; a test process may have an emulator."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for each in tasks for pid in each.read_text("utf-8").split()}


def test_a_small_file_that_takes_cpu_without_end_is_ended_by_its_limit() -> None:
    data, before = bomb(12), children()
    assert len(data) < 35_000
    began = time.perf_counter()
    refused = refusal(data, IntakeLimits(pdf_cpu_s=1, pdf_memory_bytes=2**32))
    assert refused.code == "input.file.too_slow"
    assert "1 s of CPU" in refused.message
    assert refused.next_step
    assert time.perf_counter() - began < 15
    assert children() <= before  # no process is left, not even a dead one


def test_a_file_that_needs_more_memory_than_the_limit_is_refused(
    make_pdf: MakePdf,
) -> None:
    large = zlib.compress(b"BT /F1 12 Tf (Term) Tj ET " + b" " * 300_000_000, 1)
    content = stream_object("/Filter /FlateDecode", large)
    data = make_pdf("Term", more=[content]).replace(b"/Contents 5 0", b"/Contents 6 0")
    refused = refusal(data)
    assert refused.code == "input.file.unreadable"
    assert "needs more than" in refused.message


def test_the_reader_gets_no_secret_and_no_module_of_the_working_directory(
    make_pdf: MakePdf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pypdfium2.py").write_text("raise SystemExit('planted')")
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    given = {}

    def run(*arguments: Any, **options: Any) -> Any:
        given.update(options["env"])
        return real(*arguments, **options)

    real = pdf.subprocess.run
    monkeypatch.setattr(pdf.subprocess, "run", run)
    assert read(make_pdf("Term")) == "Term"
    assert "a secret" not in given.values()


# ── text that is not what a reader sees ───────────────────────────────────────

PROSE = (
    "The supplier shall deliver the goods within thirty days of the order and bear "
    "the risk until they are accepted. If a delivery is late, the customer may end "
    "this agreement in writing and claim the price of a replacement from another. "
) * 2


def lines(text: str) -> str:
    """Return a content stream with a line for each ten words."""
    words = text.split(" ")
    rows = [" ".join(words[n : n + 10]) for n in range(0, len(words), 10)]
    shown = " ".join(f"({row}) Tj 0 -14 Td" for row in rows)
    return f"BT /F1 10 Tf 72 720 Td {shown} ET"


def mapped(*ranges: tuple[str, str, str], pages: Sequence[str] = (PROSE,)) -> bytes:
    """Return a PDF whose font maps ranges of codes to other characters."""
    rows = " ".join(f"<{first}> <{last}> <{to}>" for first, last, to in ranges)
    table = (
        "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> "
        f"<ff> endcodespacerange {len(ranges)} beginbfrange {rows} endbfrange endcmap"
    )
    number = 4 + 2 * len(pages)
    return written_pdf(
        *map(lines, pages),
        font=f"/ToUnicode {number} 0 R",
        more=[stream_object("", table.encode())],
    )


SPACE = ("20", "20", "0020")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (mapped(SPACE, ("41", "7a", "0044")), "letters of no language"),
        (mapped(SPACE, ("41", "7a", "0040")), "letters of no language"),
        (mapped(SPACE, ("41", "7a", "e041")), "characters without a meaning"),
        (mapped(SPACE, ("21", "7e", "0004")), "letters of no language"),
        (
            written_pdf(
                lines("(cid:12)(cid:7) ".replace("(", r"\(").replace(")", r"\)") * 20)
            ),
            "characters without a meaning",
        ),
        (written_pdf(lines(PROSE.replace(" ", ""))), "words without spaces"),
    ],
)
def test_text_that_no_reader_sees_is_refused(data: bytes, reason: str) -> None:
    refused = refusal(data)
    assert refused.code == "input.text.doubtful"
    assert f"{reason} on page 1" in refused.message
    assert "OCR" in refused.next_step
    assert ".txt" in refused.next_step


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "Die Kosten der Rechtsschutzversicherungsgesellschaft trägt der Kunde. "
        + "Er zahlt innerhalb von dreißig Tagen nach dem Eingang der Rechnung. " * 3,
        "Поставщик обязуется передать товары покупателю в течение тридцати дней. " * 4,
        "προμηθευτής παραδίδει τα αγαθά μέσα σε τριάντα ημέρες από σήμερα. " * 4,
        "供應商應在三十天內交付貨物並承擔風險直至驗收為止。" * 12,
        "Dodavatel předá zboží do třiceti dnů a nese nebezpečí škody na něm. " * 4,
        "12.50 EUR 7 items AB-1234 QTY 3 " * 5,
    ],
)
def test_the_text_of_a_language_is_trusted(text: str) -> None:
    assert doubt(text) == ""


def test_single_doubtful_pages_are_named_in_a_warning(make_pdf: MakePdf) -> None:
    joined = lines(PROSE.replace(" ", "")[:250])
    with capture_logs() as logs:
        text = read(make_pdf(lines(PROSE), joined, lines(PROSE)))
    assert "thirty days" in text
    [found] = logs
    assert found["event"] == "input.pages.doubtful"
    assert (found["pages"], found["reason"]) == ([2], "words without spaces")


@pytest.mark.parametrize(("gap", "pages"), [(0, []), (1.2, [1]), (2, [1])])
def test_numbers_of_two_cells_are_told_apart_or_named(
    make_pdf: MakePdf, gap: float, pages: list[int]
) -> None:
    # Each digit of Helvetica is 0.556 wide; the second cell begins after a gap.
    row = f"BT /F1 10 Tf 72 700 Td (1200) Tj {22.24 + gap} 0 Td (3400) Tj ET"
    with capture_logs() as logs:
        text = read(make_pdf(row))
    named = [page for entry in logs for page in entry["pages"]]
    assert (text, named) == ("12003400", pages)
