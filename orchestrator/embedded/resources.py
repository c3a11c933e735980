"""The two files that the embedded emulator is made from, wherever we run from.

A checkout has them under `infra/` and `requirements/`; the wheel carries copies in
this package.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent


def template() -> str:
    """Return the CloudFormation template of queues, tables and bucket."""
    return _read("data.yaml", CHECKOUT / "infra")


def lock() -> str:
    """Return the hashed requirements of the emulator's environment."""
    return _read("ministack.txt", CHECKOUT / "requirements")


def _read(name: str, folder: Path) -> str:
    packaged = HERE / name
    path = packaged if packaged.is_file() else folder / name
    return path.read_text(encoding="utf-8")
