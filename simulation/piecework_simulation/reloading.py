"""Load the modules of a project again when one of its files has changed."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from piecework.errors import PieceworkError
from piecework.loading import load_pipelines
from piecework.pipelines import Pipeline

T = TypeVar("T")

#: Seconds between two reads of the files: a person does not notice them.
POLL_S = 0.3
#: Their state belongs to the running process.
OURS = {
    "__main__",
    "piecework",
    "piecework_orchestrator",
    "piecework_simulation",
    "piecework_worker",
}
#: The time of a file's last change, and its size.
Stamp = tuple[int, int]


@dataclass(slots=True)
class Project:
    """The Python files below a folder, without hidden folders and environments."""

    folder: Path
    stamps: dict[Path, Stamp] = field(init=False)

    def __post_init__(self) -> None:
        """Remember the present files."""
        self.stamps = dict(self._read())

    def changed(self) -> set[Path]:
        """Return the files that were changed, added or removed since the last call."""
        before, self.stamps = self.stamps, dict(self._read())
        return {path for path, _ in before.items() ^ self.stamps.items()}

    def holds(self, module: ModuleType) -> bool:
        """Return whether a module was loaded from one of the files."""
        file = getattr(module, "__file__", None)
        return file is not None and Path(file).absolute() in self.stamps

    def _read(self) -> list[tuple[Path, Stamp]]:
        found = []
        for place, folders, names in os.walk(self.folder):
            here = Path(place)
            folders[:] = [name for name in folders if not is_foreign(here / name)]
            for name in names:
                if name.endswith(".py"):
                    try:
                        facts = (here / name).stat()
                    except OSError:  # an editor is replacing it
                        continue
                    found.append((here / name, (facts.st_mtime_ns, facts.st_size)))
        return found


def is_foreign(folder: Path) -> bool:
    """Return whether a folder is hidden, or holds packages of others."""
    return folder.name.startswith((".", "__pycache__", "node_modules")) or (
        (folder / "pyvenv.cfg").exists()
    )


async def new_versions(
    project: Project, name: str
) -> AsyncIterator[dict[str, Pipeline] | PieceworkError]:
    """Yield the pipelines of a name after each change, or why they cannot be loaded."""
    while True:
        await asyncio.sleep(POLL_S)
        if changed := project.changed():
            try:
                yield apart(partial(load_again, project, name, changed))
            except PieceworkError as error:
                yield error


def apart(work: Callable[[], T]) -> T:
    """Return what a function returns in a thread without an event loop; wait for it.

    A module may run a loop of its own when it is loaded.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def load_again(project: Project, name: str, changed: set[Path]) -> dict[str, Pipeline]:
    """Import the modules of a project again; if that fails, keep the earlier ones.

    Raises:
        UsageError: As `load_pipelines`.
    """
    earlier = own_modules(project)
    for module in earlier:
        del sys.modules[module]
    for path in changed:  # its time has whole seconds there: two saves may be equal
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
    importlib.invalidate_caches()
    try:
        return load_pipelines([name])
    except BaseException:
        for module in own_modules(project):
            del sys.modules[module]
        sys.modules.update(earlier)
        raise


def own_modules(project: Project) -> dict[str, ModuleType]:
    """Return the loaded modules of a project by their names."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in OURS and project.holds(module)
    }
