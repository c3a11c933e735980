"""Every input code of the registry appears in a test of this package."""

from __future__ import annotations

from pathlib import Path

from piecework.errors.codes import REGISTRY


def test_every_input_code_appears_in_a_test() -> None:
    tests = Path(__file__).parent.glob("test_*.py")
    said = "".join(path.read_text("utf-8") for path in tests)
    codes = {code for code in REGISTRY if code.startswith("input.")}
    assert codes == {code for code in codes if f'"{code}"' in said}
