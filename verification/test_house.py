"""The measures of `make house` notice what they are made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.house import (
    LIMITS,
    circles_of,
    code_lines,
    main,
    measure,
    name_of,
    stage_frames,
)

SOURCE = '''"""A docstring
of two lines."""

# A comment.
TEXT = """one

three"""  # code on its line


def double(x: int) -> int:
    """Double a number."""
    return (
        # A comment within an expression.
        2 * x
    )
'''


def test_blank_lines_comments_and_docstrings_are_not_lines_of_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.py").write_text(SOURCE)

    assert 7 == code_lines(tmp_path / "x.py")


def test_each_circle_is_found_once() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"d2"}, "d2": {"d"}}

    assert [2, 3] == sorted(len(set(circle)) for circle in circles_of(edges))
    assert [] == list(circles_of({"a": {"b", "c"}, "b": {"c"}}))


def test_the_frames_lead_from_the_worker_to_the_stage() -> None:
    names = [name_of(frame) for frame in stage_frames()]

    assert names[-1].startswith("piecework_worker.worker.")
    assert any(name.startswith("piecework.saga.engine.") for name in names)


def test_the_code_has_no_import_circle_and_the_line_has_each_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = measure()
    code = main()

    exceeded = [name for name, limit in LIMITS.items() if figures[name] > limit]
    assert LIMITS.keys() == figures.keys()
    assert 0 == figures["circles"]
    assert f"circles=0 frames_to_stage={figures['frames_to_stage']} " in (
        capsys.readouterr().out
    )
    assert bool(exceeded) == bool(code)
