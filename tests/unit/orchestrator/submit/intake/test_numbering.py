from __future__ import annotations

import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from piecework_orchestrator.submit.intake.word_styles import Numbering


def level(depth: int, kind: str, text: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
        f'{more}<w:lvlText w:val="{text}"/></w:lvl>'
    )


def numbering(levels: str, overrides: str = "") -> Numbering:
    root = parse_xml(
        f"<w:numbering {nsdecls('w')}>"
        '<w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="S"/></w:abstractNum>'
        '<w:abstractNum w:abstractNumId="0"><w:styleLink w:val="S"/>'
        f"{levels}</w:abstractNum>"
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        f'<w:num w:numId="2"><w:abstractNumId w:val="0"/>{overrides}</w:num>'
        '<w:num w:numId="3"><w:abstractNumId w:val="9"/></w:num>'
        '<w:num w:numId="4"><w:abstractNumId w:val="1"/></w:num>'
        "</w:numbering>"
    )
    return Numbering(root)


LEGAL = (
    level(0, "decimal", "%1.")
    + level(1, "decimal", "%1.%2")
    + level(2, "lowerLetter", "(%3)")
)


def markers(counted: Numbering, *steps: tuple[str, int]) -> list[str]:
    return [counted.next_marker(num_id, depth, None) for num_id, depth in steps]


def test_deeper_levels_restart_under_each_higher_level() -> None:
    steps = [("1", d) for d in (0, 1, 1, 2, 2, 1, 0, 1, 2)]
    expected = ["1.", "1.1", "1.2", "(a)", "(b)", "1.3", "2.", "2.1", "(a)"]
    assert expected == markers(numbering(LEGAL), *steps)


def test_a_list_by_a_list_style_has_the_levels_of_the_style() -> None:
    assert markers(numbering(LEGAL), ("4", 0), ("4", 1)) == ["1.", "1.1"]


def test_two_instances_of_a_list_share_their_count() -> None:
    assert markers(numbering(LEGAL), ("1", 0), ("2", 0)) == ["1.", "2."]


def test_an_instance_with_a_start_override_restarts_once() -> None:
    restart = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    counted = numbering(LEGAL, restart)
    assert markers(counted, ("1", 0), ("2", 0), ("2", 0)) == ["1.", "5.", "6."]


def test_a_skipped_level_counts_as_started() -> None:
    assert markers(numbering(LEGAL), ("1", 1)) == ["1.1"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("decimal", "28"),
        ("lowerLetter", "bb"),
        ("upperLetter", "BB"),
        ("lowerRoman", "xxviii"),
        ("upperRoman", "XXVIII"),
        ("decimalZero", "28"),
        ("none", ""),
        ("chineseCounting", "28"),
    ],
)
def test_counts_have_the_format_of_their_level(kind: str, expected: str) -> None:
    counted = numbering(level(0, kind, "%1"))
    assert expected == markers(counted, *[("1", 0)] * 28)[-1]


def test_legal_style_shows_all_levels_as_decimals() -> None:
    levels = level(0, "upperRoman", "%1") + level(1, "decimal", "%1.%2", "<w:isLgl/>")
    assert markers(numbering(levels), ("1", 0), ("1", 1)) == ["I", "1.1"]


@pytest.mark.parametrize("num_id", [None, "0", "3", "77"])
def test_an_undefined_list_has_no_marker(num_id: str | None) -> None:
    assert not numbering(LEGAL).next_marker(num_id, 0, None)


def test_a_style_has_the_level_that_names_it() -> None:
    levels = level(0, "decimal", "%1.") + level(
        1, "decimal", "%1.%2", '<w:pStyle w:val="Sub"/>'
    )
    assert numbering(levels).next_marker("1", None, "Sub") == "1.1"


LEGAL_STYLE = '<w:isLgl w:val="1"/>'
CHOICE = (
    '<w:lvl w:ilvl="1"><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org'
    '/markup-compatibility/2006"><mc:Choice Requires="w14"><w:numFmt w:val="custom" '
    'w:format="001, 002, 003, ..."/></mc:Choice><mc:Fallback><w:numFmt '
    'w:val="decimal"/></mc:Fallback></mc:AlternateContent>'
    '<w:lvlText w:val="%1.%2"/></w:lvl>'
)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        # The list "Article I / Section 1.01" of Word's own gallery.
        (level(1, "decimalZero", "Section %1.%2", LEGAL_STYLE), "Section 2.01"),
        (level(1, "decimalZero", "Section %1.%2"), "Section II.01"),
        (level(1, "upperLetter", "%1.%2", LEGAL_STYLE), "2.1"),
        (level(1, "decimalZero", "%2", '<w:isLgl w:val="0"/>'), "01"),
        (CHOICE, "II.001"),
        (CHOICE.replace("<w:lvlText", f"{LEGAL_STYLE}<w:lvlText"), "2.001"),
    ],
)
def test_numbers_keep_their_leading_zeros(second: str, expected: str) -> None:
    counted = numbering(level(0, "upperRoman", "Article %1.") + second)
    assert markers(counted, ("1", 0), ("1", 0), ("1", 1))[-1] == expected


@pytest.mark.parametrize(
    ("restart", "expected"),
    [
        ("", ["1.1.1", "1.2.1", "2.1.1"]),
        ('<w:lvlRestart w:val="1"/>', ["1.1.1", "1.2.2", "2.1.1"]),
        ('<w:lvlRestart w:val="0"/>', ["1.1.1", "1.2.2", "2.1.3"]),
    ],
)
def test_a_level_starts_again_after_the_level_that_it_names(
    restart: str, expected: list[str]
) -> None:
    third = level(2, "decimal", "%1.%2.%3", restart)
    counted = numbering(level(0, "decimal", "%1") + level(1, "decimal", "%2") + third)
    steps = [("1", depth) for depth in (0, 1, 2, 1, 2, 0, 1, 2)]
    found = markers(counted, *steps)
    assert [found[2], found[4], found[7]] == expected
