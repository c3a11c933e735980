"""What Python itself does meanwhile: imports, files, processes, connections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

#: Events that nothing which comes from outside may bring about.
FORBIDDEN = frozenset(
    {
        *("import", "exec", "compile", "open", "subprocess.Popen", "os.system"),
        *("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.remove", "os.rename"),
        *("ctypes.dlopen", "pickle.find_class", "socket.getaddrinfo", "marshal.loads"),
        *("urllib.Request", "code.__new__", "builtins.input", "shutil.rmtree"),
    }
)
_seen: list[str] | None = None
_installed: list[bool] = []


@contextmanager
def watching() -> Iterator[list[str]]:
    """Yield what happens inside, as it happens; nothing else of the process counts."""
    global _seen  # noqa: PLW0603 -- an audit hook cannot be taken away again
    if not _installed:
        sys.addaudithook(hear)
        _installed.append(True)
    found: list[str] = []
    before = set(sys.modules)
    _seen = found
    try:
        yield found
    finally:
        _seen = None
        found += [f"sys.modules {name}" for name in set(sys.modules) - before]


def hear(event: str, args: tuple[Any, ...]) -> None:
    """Note an event that is forbidden."""
    if _seen is None:
        return
    if event == "socket.connect" and not is_here(args[1]):
        _seen.append(f"{event} {args[1]}")
    elif event in FORBIDDEN:
        _seen.append(f"{event} {args[:1]}")


def is_here(address: Any) -> bool:
    """Return whether a connection stays on this machine."""
    if not isinstance(address, tuple):
        return True
    try:
        return ip_address(address[0]).is_loopback
    except ValueError:
        return False
