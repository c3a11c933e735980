from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest
from docx.document import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake import word
from piecework_orchestrator.submit.intake.limits import IntakeLimits

MakeWord = Callable[[Callable[[Document], object]], bytes]

OLE = bytes.fromhex("D0CF11E0A1B11AE1")


def read(data: bytes, limits: IntakeLimits | None = None) -> str:
    return word.read(data, "a.docx", limits or IntakeLimits())


def refusal(data: bytes, limits: IntakeLimits | None = None) -> UsageError:
    with pytest.raises(UsageError) as refused:
        read(data, limits)
    return refused.value


def repacked(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """Return a document whose parts are changed, by their name and content."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return packed.getvalue()


def body(xml: str) -> Callable[[Document], object]:
    """Return a function that appends raw XML to a document's body."""

    def write(document: Document) -> None:
        wrapped = parse_xml(f"<w:body {nsdecls('w')}>{xml}</w:body>")
        for element in wrapped:
            document.element.body.insert(-1, element)

    return write


def paragraph(text: str, properties: str = "") -> str:
    return (
        f"<w:p><w:pPr>{properties}</w:pPr>"
        f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'
    )


def test_headings_paragraphs_and_tables_come_in_document_order(
    make_word: MakeWord,
) -> None:
    def write(document: Document) -> None:
        document.add_heading("Agreement", 0)
        document.add_heading("Term", 1)
        document.add_paragraph("Two years.")
        table = document.add_table(rows=2, cols=2)
        for row, texts in zip(table.rows, [("Fee", "Due"), ("5", "May")], strict=True):
            for cell, said in zip(row.cells, texts, strict=True):
                cell.text = said
        document.add_heading("Notice", 2)

    expected = "# Agreement\n\n# Term\n\nTwo years.\n\nFee | Due\n5 | May\n\n## Notice"
    assert expected == read(make_word(write))


def test_lists_keep_their_markers_and_numbers(make_word: MakeWord) -> None:
    def write(document: Document) -> None:
        document.add_paragraph("first", style="List Number")
        document.add_paragraph("second", style="List Number")
        document.add_paragraph("point", style="List Bullet")

    assert read(make_word(write)) == "1. first\n\n2. second\n\n- point"


def test_an_empty_numbered_paragraph_is_counted_unless_it_was_deleted(
    make_word: MakeWord,
) -> None:
    def write(document: Document) -> None:
        for text in ("one", "", "", "last"):
            document.add_paragraph(text, style="List Number")
        deleted = document.paragraphs[1].paragraph_format.element.get_or_add_pPr()
        deleted.append(parse_xml(f"<w:rPr {nsdecls('w')}><w:del/></w:rPr>"))

    assert read(make_word(write)) == "1. one\n\n3. last"


def test_inserted_text_is_read_and_deleted_text_is_not(make_word: MakeWord) -> None:
    tracked = (
        "<w:p><w:r><w:t>Notice: </w:t></w:r>"
        "<w:del><w:r><w:delText>30</w:delText><w:tab/></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        "<w:ins><w:r><w:t>60</w:t></w:r></w:ins>"
        "<w:r><w:tab/><w:t>days</w:t></w:r></w:p>"
    )
    assert read(make_word(body(tracked))) == "Notice: 60\tdays"


def test_text_in_content_controls_and_links_is_read(make_word: MakeWord) -> None:
    wrapped = (
        f"<w:sdt><w:sdtContent>{paragraph('controlled')}</w:sdtContent></w:sdt>"
        "<w:p><w:hyperlink><w:r><w:t>linked</w:t></w:r></w:hyperlink></w:p>"
    )
    assert read(make_word(body(wrapped))) == "controlled\n\nlinked"


def test_symbols_and_equations_are_read(make_word: MakeWord) -> None:
    fonts = {"Symbol": "F0A3", "Wingdings": "F0FE", "Arial": "2264", "Webdings": "F061"}
    symbols = [f'<w:sym w:font="{f}" w:char="{c}"/>' for f, c in fonts.items()]
    part = "<m:f><m:num><m:t>a+b</m:t></m:num><m:den><m:t>2</m:t></m:den></m:f>"
    total = '<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub/></m:nary>'
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    text = f'<w:p xmlns:m="{math}">{"".join(symbols)}{part}{total}</w:p>'
    assert read(make_word(body(text))) == "≤☑≤\ufffd(a+b)/(2)∑"


def test_a_merged_cell_is_read_once_with_its_nested_table(
    make_word: MakeWord,
) -> None:
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('in')}</w:tc></w:tr></w:tbl>"
    table = (
        '<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>'
        f"{paragraph('wide')}</w:tc><w:tc>{inner}{paragraph('out')}</w:tc></w:tr>"
        f"<w:tr><w:trPr><w:del/></w:trPr><w:tc>{paragraph('gone')}</w:tc></w:tr>"
        "</w:tbl>"
    )
    assert read(make_word(body(table))) == "wide | in out"


def test_a_paragraph_with_an_outline_level_is_a_heading(make_word: MakeWord) -> None:
    heading = paragraph("Scope", '<w:outlineLvl w:val="2"/>')
    assert read(make_word(body(heading))) == "### Scope"


@pytest.mark.attack("archives")
@pytest.mark.parametrize(
    "entity",
    ['"expanded"', 'SYSTEM "file:///etc/hostname"', '"&f;"> <!ENTITY f "&#65;&#65;"'],
    ids=["internal", "external", "nested"],
)
def test_a_document_type_is_refused_because_text_could_vanish(
    entity: str, make_word: MakeWord
) -> None:
    head = b"<?xml version='1.0' encoding='UTF-8' standalone='yes'?>"

    def change(name: str, content: bytes) -> bytes:
        if name != "word/document.xml":
            return content
        assert content.startswith(head)
        dtd = f"<!DOCTYPE x [<!ENTITY e {entity}>]>".encode()
        content = content.replace(b"HERE", b"before&e;after")
        return head + dtd + content.removeprefix(head)

    refused = refusal(repacked(make_word(body(paragraph("HERE"))), change))
    assert refused.code == "input.file.unreadable"
    assert "DTD" in refused.message


@pytest.mark.attack("archives")
def test_too_many_cells_are_refused_before_they_are_read(make_word: MakeWord) -> None:
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('in')}</w:tc></w:tr></w:tbl>"
    table = f"<w:tbl><w:tr><w:tc>{inner}</w:tc></w:tr></w:tbl>"
    data = make_word(body(table))
    assert read(data, IntakeLimits(docx_cells=2)) == "in"
    assert refusal(data, IntakeLimits(docx_cells=1)).code == "input.file.too_large"


def test_encrypted_and_old_files_have_different_errors() -> None:
    encrypted = OLE + bytes(500) + "EncryptedPackage".encode("utf-16-le")
    assert refusal(encrypted).code == "input.file.encrypted"
    old = refusal(OLE + bytes(500))
    assert old.code == "input.file.unreadable"
    assert ".doc format" in old.message


def test_a_file_with_an_encrypted_member_is_encrypted(make_word: MakeWord) -> None:
    data = bytearray(make_word(body(paragraph("x"))))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert refusal(bytes(data)).code == "input.file.encrypted"


def bomb(size: int, name: str = "word/media/a.png") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(size))
    return packed.getvalue()


@pytest.mark.attack("archives")
@pytest.mark.parametrize(
    ("data", "limits", "figure"),
    [
        (bomb(1_000_000), IntakeLimits(), "compression ratio"),
        (bomb(2000), IntakeLimits(docx_unpacked_bytes=1999), "1,999"),
        (bomb(2000, "word/document.png"), IntakeLimits(docx_xml_bytes=1999), "XML"),
        (bomb(2000), IntakeLimits(docx_members=0), "1 members"),
    ],
    ids=["ratio", "unpacked", "xml", "members"],
)
def test_a_zip_bomb_is_refused_before_unpacking(
    data: bytes, limits: IntakeLimits, figure: str
) -> None:
    refused = refusal(data, limits)
    assert refused.code == "input.file.too_large"
    assert figure in refused.message


@pytest.mark.attack("archives")
def test_a_zip_directory_with_wrong_sizes_is_unreadable(make_word: MakeWord) -> None:
    data = bytearray(make_word(body(paragraph("x" * 5000))))
    entry = -1
    while (entry := data.find(b"PK\x01\x02", entry + 1)) >= 0:
        data[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    assert refusal(bytes(data)).code == "input.file.unreadable"


@pytest.mark.parametrize("data", [b"no zip", bomb(10), b"PK\x05\x06" + bytes(18)])
def test_a_file_of_another_format_is_unreadable(data: bytes) -> None:
    assert refusal(data).code == "input.file.unreadable"


def test_a_truncated_file_is_unreadable(make_word: MakeWord) -> None:
    data = make_word(body(paragraph("x")))
    assert refusal(data[: len(data) // 2]).code == "input.file.unreadable"


def with_notes(**texts: str) -> Callable[[bytes], bytes]:
    """Return a function that adds parts of notes to a document."""

    def add(data: bytes) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            members = {each: old.read(each) for each in old.namelist()}
        types = relations = ""
        for kind, xml in texts.items():
            members[f"word/{kind}.xml"] = (
                f"<w:{kind} {nsdecls('w')}>{xml}</w:{kind}>".encode()
            )
            types += (
                f'<Override PartName="/word/{kind}.xml" ContentType="application/vnd.'
                f'openxmlformats-officedocument.wordprocessingml.{kind}+xml"/>'
            )
            relations += (
                f'<Relationship Id="r{kind}" Target="{kind}.xml" Type="http://schemas.'
                f'openxmlformats.org/officeDocument/2006/relationships/{kind}"/>'
            )
        for name, more, end in (
            ("[Content_Types].xml", types, b"</Types>"),
            ("word/_rels/document.xml.rels", relations, b"</Relationships>"),
        ):
            members[name] = members[name].replace(end, more.encode() + end)
        with zipfile.ZipFile(packed, "w") as new:
            for name, content in members.items():
                new.writestr(name, content)
        return packed.getvalue()

    return add


def mark(kind: str, number: int) -> str:
    return f'<w:r><w:{kind}Reference w:id="{number}"/></w:r>'


def test_notes_are_read_where_their_marks_are(make_word: MakeWord) -> None:
    text = (
        f"<w:p><w:r><w:t>The fee</w:t></w:r>{mark('footnote', 2)}"
        f"<w:r><w:t> is due</w:t></w:r>{mark('endnote', 1)}{mark('footnote', 3)}"
        f"{mark('footnote', 2)}<w:del>{mark('footnote', 4)}</w:del></w:p>"
    )
    note = (
        '<w:{0} w:id="{1}"><w:p><w:r><w:{0}Ref/><w:t>{2}</w:t></w:r>{3}</w:p></w:{0}>'
    )
    notes = with_notes(
        footnotes='<w:footnote w:type="separator" w:id="-1"><w:p/></w:footnote>'
        + note.format("footnote", 2, "Net of tax.", "")
        + note.format("footnote", 3, "Not on", mark("footnote", 3))
        + note.format("footnote", 4, "Deleted.", ""),
        endnotes=note.format("endnote", 1, "See Annex.", ""),
    )
    assert read(notes(make_word(body(text)))) == (
        "The fee [footnote 1: Net of tax.] is due [endnote 1: See Annex.]"
        " [footnote 2: Not on] [footnote 1]"
    )


def test_a_note_with_a_document_type_is_refused(make_word: MakeWord) -> None:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("footnotes.xml"):
            return content
        kind = b'<!DOCTYPE x [<!ENTITY e "z">]>'
        return kind + content.replace(b"></", b"><w:footnote/></")

    data = with_notes(footnotes="")(make_word(body(paragraph("x"))))
    assert "DTD" in refusal(repacked(data, change)).message


def test_a_strict_document_is_read_as_a_usual_one(make_word: MakeWord) -> None:
    def write(document: Document) -> None:
        document.add_heading("Term", 1)
        document.add_paragraph("Two years.", style="List Number")

    def change(_: str, content: bytes) -> bytes:
        for part in (b"officeDocument", b"wordprocessingml", b"drawingml"):
            usual = b"http://schemas.openxmlformats.org/" + part + b"/2006/"
            content = content.replace(
                usual, b"http://purl.oclc.org/ooxml/" + part + b"/"
            )
        return content

    data = make_word(write)
    assert read(repacked(data, change)) == read(data)
    assert "# Term" in read(data)
