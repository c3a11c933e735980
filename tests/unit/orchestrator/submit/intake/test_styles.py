from __future__ import annotations

from typing import Any

import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from piecework_orchestrator.submit.intake.word_styles import Styles

STYLES = """
<w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>
<w:style w:styleId="Clause"><w:name w:val="Clause"/><w:basedOn w:val="berschrift2"/>
  <w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="4"/></w:numPr></w:pPr></w:style>
<w:style w:styleId="Sub"><w:name w:val="Sub"/><w:basedOn w:val="Clause"/></w:style>
<w:style w:styleId="Outlined"><w:name w:val="Own"/>
  <w:pPr><w:outlineLvl w:val="3"/></w:pPr></w:style>
<w:style w:styleId="Body"><w:name w:val="Own body"/><w:basedOn w:val="Sub"/>
  <w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>
<w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
"""


@pytest.fixture(name="styles")
def _styles() -> Styles:
    return Styles(parse_xml(f"<w:styles {nsdecls('w')}>{STYLES}</w:styles>"))


def paragraph(style: str, more: str = "") -> Any:
    return parse_xml(
        f'<w:p {nsdecls("w")}><w:pPr><w:pStyle w:val="{style}"/>{more}</w:pPr></w:p>'
    )


@pytest.mark.parametrize(
    ("style", "level"),
    [
        ("berschrift2", 2),
        ("Sub", 2),
        ("Outlined", 4),
        ("Body", 0),
        ("Loop", 0),
        ("Undefined", 0),
    ],
)
def test_a_heading_is_found_by_its_style_or_a_base_style(
    style: str, level: int, styles: Styles
) -> None:
    assert level == styles.heading_level(paragraph(style))


def test_a_paragraphs_own_property_overrides_its_style(styles: Styles) -> None:
    body_text = paragraph("Sub", '<w:outlineLvl w:val="9"/>')
    assert styles.heading_level(body_text) == 0


@pytest.mark.parametrize(
    ("style", "own", "expected"),
    [
        ("Sub", "", ("4", 1, "Clause")),
        ("Sub", '<w:numPr><w:ilvl w:val="0"/></w:numPr>', ("4", 0, "Clause")),
        ("Sub", '<w:numPr><w:numId w:val="7"/></w:numPr>', ("7", 0, None)),
        ("Outlined", "", (None, None, None)),
    ],
)
def test_numbering_comes_from_the_paragraph_or_its_styles(
    style: str, own: str, expected: tuple[object, ...], styles: Styles
) -> None:
    assert expected == styles.numbering(paragraph(style, own))
