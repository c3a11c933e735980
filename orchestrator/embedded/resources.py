"""The hashed requirements of the embedded emulator.

A checkout has them in `requirements/`; the wheel carries a copy in this package.
"""

from __future__ import annotations

from pathlib import Path

NAME = "ministack.txt"
HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent


def read_lock_file() -> str:
    """Return the hashed requirements of the emulator's environment."""
    packaged = HERE / NAME
    path = packaged if packaged.is_file() else CHECKOUT / "requirements" / NAME
    return path.read_text(encoding="utf-8")
