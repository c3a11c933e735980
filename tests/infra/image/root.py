"""A container without an engine: a root filesystem of its own, and a process in it.

Namespaces of the kernel do what an engine would ask of it. The system's programs are
the machine's, mounted read-only. What the image adds is mounted where the image has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join, quote

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc")
TOOLS = ("unshare", "nsenter", "setpriv", "chroot", "mount")
UID = "10001"
#: As `USER 10001:10001`, `--cap-drop ALL` and `no-new-privileges`.
UNPRIVILEGED = (
    "setpriv",
    f"--reuid={UID}",
    f"--regid={UID}",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
    # A change of the user drops this; without it a test leaves processes behind.
    "--pdeathsig=KILL",
)


@dataclass(frozen=True)
class Mount:
    """A folder of the machine, and where it is seen inside."""

    here: Path
    there: str
    writable: bool = False


def why_not() -> str:
    """Say why this machine cannot do it; nothing: it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux, for a root filesystem of its own"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    probe = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "mount",
        "-t",
        "tmpfs",
        "x",
        "/mnt",
    ]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"may not mount: {tried.stderr.strip()}" if tried.returncode else ""


def python_of_the_machine() -> list[Mount]:
    """Return what a virtual environment of this Python leads to."""
    places = {Path(sys.base_prefix).resolve(), Path(sys.base_prefix)}
    return [Mount(p, str(p)) for p in places if not p.is_relative_to("/usr")]


def inside(
    command: Sequence[str],
    environment: Mapping[str, str],
    mounts: Sequence[Mount],
    root: Path,
    *,
    directory: str = "/",
    confined: bool = True,
) -> list[str]:
    """Return what runs a command inside; confined: unprivileged, on a read-only root.

    The command is the first in its own table of processes, as in a container without an
    init. The mounts are gone with the process.
    """
    names = [f"{name}={value}" for name, value in environment.items()]
    run = ["env", "-i", f"--chdir={directory}", *names, *command]
    lines = [
        "set -e",
        f"mount -t tmpfs -o mode=0755 image {quote(str(root))}",
        f"cd {quote(str(root))}",
        "mkdir -m 1777 tmp",
        "mkdir dev proc",
        *(line for name in SYSTEM for line in system(name)),
        *(line for mount in mounts for line in mounted(mount)),
        f"mkdir -p .{directory}",
        "mount --rbind /dev dev",
        "mount -t proc proc proc",
        "mount -t tmpfs -o mode=1777,size=64m tmp tmp",
        *(["mount -o remount,ro,bind ."] if confined else []),
        f"exec chroot . {join([*UNPRIVILEGED, *run] if confined else run)}",
    ]
    program = ["sh", "-c", "\n".join(lines)]
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", *program]


def system(name: str) -> list[str]:
    """Return what lends a folder of the system, which may be a link."""
    path = Path("/") / name
    if path.is_symlink():
        return [f"ln -s {path.readlink()} {name}"]
    return mounted(Mount(path, str(path))) if path.is_dir() else []


def mounted(mount: Mount) -> list[str]:
    """Return what mounts a folder."""
    to = quote(f".{mount.there}")
    lines = [f"mkdir -p {to}", f"mount --bind {quote(str(mount.here))} {to}"]
    return lines if mount.writable else [*lines, f"mount -o remount,ro,bind {to}"]


def first(pid: int) -> int:
    """Return the process that `unshare` started, once it is there; else 0."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


def beside(
    pid: int, command: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Return what runs a command beside a process inside, as `docker exec` does."""
    names = [f"{name}={value}" for name, value in environment.items()]
    enter = ["nsenter", f"--target={pid}", "--mount", "--pid", "--root", "--wd"]
    return [*enter, *UNPRIVILEGED, "env", "-i", *names, *command]
