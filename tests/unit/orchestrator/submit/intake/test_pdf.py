from __future__ import annotations

import logging
from collections.abc import Callable

import pypdf
import pytest
from pypdf.errors import DependencyError
from structlog.testing import capture_logs

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake import pdf
from piecework_orchestrator.submit.intake.limits import IntakeLimits

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
    fields = ["/FT/Tx/T(fee)/V(5 EUR)", "/FT/Tx/T(note)", "/FT/Btn/T(agreed)/V/Yes"]
    fields += ["/FT/Btn/T(refused)/V/Off", "/FT/Ch/T(places)/V[(Rome)(Oslo)]"]
    objects = "".join(f"{n} 0 obj<<{f}>>endobj\n" for n, f in enumerate(fields, 60))
    kids = " ".join(f"{n} 0 R" for n in range(60, 65))
    data = make_pdf("Term").replace(b"\nxref", f"\n{objects}xref".encode())
    form = f"/Catalog /AcroForm <</Fields [{kids}]>>".encode()
    data = data.replace(b"/Catalog", form)  # pypdf repairs the table of offsets
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
    make_pdf: MakePdf, encrypt_pdf: MakePdf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decrypt(*_: object) -> None:
        raise DependencyError

    monkeypatch.setattr(pypdf.PdfReader, "decrypt", decrypt)
    refused = refusal(encrypt_pdf(make_pdf("Term"), "", "RC4-128"))
    assert refused.code == "input.file.encrypted"


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


def test_repairs_by_pypdf_are_not_logged(
    make_pdf: MakePdf, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sloppy = make_pdf("Term").replace(b"startxref\n", b"startxref\n7")
    assert read(sloppy) == "Term"
    assert [] == caplog.records
