"""Start processes, and measure their CPU and memory from /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[1]
#: Seconds until a process that does not stop is killed.
STOP_TIMEOUT_S = 15.0


class FailedError(Exception):
    """A process failed at its task."""


@dataclass(slots=True)
class Group:
    """A started process with its children, in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU that the group has used, its dead children's included."""
        return sum(stat.cpu for stat in stats() if stat.group == self.process.pid)

    @property
    def rss_mb(self) -> float:
        """The peak memory of the process in MB."""
        return peak_rss_mb(str(self.process.pid))

    def check(self) -> None:
        """Fail when the process has ended by itself."""
        if self.process.poll() is not None:
            code = self.process.returncode
            raise FailedError(f"The process ended with code {code}:\n{tail(self.log)}")

    def stop(self) -> None:
        """Stop it with SIGTERM; kill it if it does not stop in time."""
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Kill the whole group as the kernel does."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to the whole group, if there is one left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, sign)


def peak_rss_mb(process: str) -> float:
    """Return the peak memory of a process in MB.

    `getrusage` is unsuitable: a child starts with its parent's peak.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    (line,) = (li for li in status.splitlines() if li.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def start(
    command: Sequence[str],
    environ: Mapping[str, str],
    log: Path,
    pass_fds: Sequence[int] = (),
) -> Group:
    """Start a process that speaks to a file."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environ),
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Group(process, log)


def run(command: Sequence[str], environ: Mapping[str, str], log: Path) -> str:
    """Run a process until it ends; return its standard output."""
    with log.open("ab") as sink:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
            check=False,
        )
    if done.returncode:
        raise FailedError(
            f"The process ended with code {done.returncode}:\n{tail(log)}"
        )
    return done.stdout.decode()


def wait_until(
    condition: Callable[[], object], within_s: float, *, every_s: float
) -> bool:
    """Wait until a condition holds; return whether it did in time."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True


def tail(log: Path, lines: int = 15) -> str:
    """Return the end of a log."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of a process in /proc."""

    pid: int
    parent: int
    group: int
    cpu: float


def stats() -> list[Stat]:
    """Return all processes of the machine."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                found.append(parse(int(each.name), (each / "stat").read_text()))
            except OSError:  # it has ended
                continue
    return found


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    found = stats()
    inside = {pid}
    while True:
        more = {stat.pid for stat in found if stat.parent in inside} - inside
        if not more:
            return sum(stat.cpu for stat in found if stat.pid in inside)
        inside |= more


def stat_of(pid: int) -> Stat:
    """Return one process."""
    return parse(pid, Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"))


def parse(pid: int, line: str) -> Stat:
    """Parse a line of /proc/PID/stat; the process name may contain any character."""
    fields = line.rpartition(")")[2].split()
    cpu = sum(map(int, fields[11:15])) / TICKS
    return Stat(pid, int(fields[1]), int(fields[2]), cpu)
