"""The wheel works in a project that has folders with the names of our folders."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import README, ROOT, fenced

pytestmark = pytest.mark.slow

FOLDERS = ("workers", "orchestrator", "simulation", "examples", "bench", "infra")
PACKAGES = {
    "piecework",
    "piecework_examples",
    "piecework_orchestrator",
    "piecework_simulation",
    "piecework_worker",
}
STARTERS = (("words",), ("invoices", "--llm"), ("trips", "--saga"))
RUN_PROJECT = ("piecework_simulation.run_command", "app", "rows.jsonl")
SIMULATED = ("piecework_examples.quickstart:word_count", "notes.md", "--schedules", "5")
#: Runs programs, each in a fork: the imports, which take seconds, are done once.
FORKS = """
import json, os, runpy, sys
import pytest, piecework_simulation.__main__, piecework_simulation.run_command
sys.path.remove("")
for number, (folder, words) in enumerate(json.loads(sys.argv[1])):
    if not (child := os.fork()):
        os.dup2(os.open(f"{number}.out", os.O_CREAT | os.O_WRONLY), 1)
        os.chdir(folder or ".")
        sys.path.append(os.getcwd())
        sys.modules.pop(f"{words[0]}.__main__", 0), sys.modules.pop(words[0], 0)
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        sys.exit()
    assert not os.waitpid(child, 0)[1], words
"""
PROMISED = re.compile(
    r"lost=0 duplicate_effects=0 calls_paid_twice=\d+ chunks=22 redriven=1"
)
#: What the README says that `make demo` prints.
TRANSCRIPT = fenced(README, "")[0]


def form_of(line: str) -> str:
    """Return a line without what each run draws anew.

    These are numbers, the hit chunks, and the stage at which the kill met one.
    """
    line = re.sub(r"its chunks: .*", "its chunks", line)
    line = re.sub(r"continues in \w+", "continues in a stage", line)
    return re.sub(r"\d+(\.\d+)?", "0", line)


@dataclass(frozen=True)
class Project:
    """A user's project, and the Python of the environment that has the wheel."""

    folder: Path
    python: Path
    packages: Path

    def run(self, *words: str) -> str:
        return self.python_run("-m", *words)

    def run_each(self, programs: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Run programs, each in its folder; return what each has printed."""
        self.python_run("-c", FORKS, json.dumps(programs))
        files = [self.folder / f"{number}.out" for number in range(len(programs))]
        return [file.read_text("utf-8") for file in files]

    def python_run(self, *words: str) -> str:
        done = subprocess.run(
            [self.python, *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Install the wheel as pip does, by unpacking it; dependencies come from here.

    A path in a `.pth` file is added alone. So the editable install of the development
    environment, itself a `.pth` file, does not lead to this checkout.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    scheme = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    folder = tmp_path_factory.mktemp("project")
    for name in FOLDERS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise ImportError('not ours')\n")
    (folder / "notes.md").write_text("one two\n\nthree\n")
    return Project(folder, home / "bin" / "python", packages)


def test_the_wheel_has_only_our_top_level_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}

    assert {name for name in tops if not name.endswith(".dist-info")} == PACKAGES


def test_packages_and_templates_are_those_of_the_wheel(project: Project) -> None:
    names = ", ".join(sorted(PACKAGES))
    source = (
        f"import {names}\n"
        f"for package in ({names}): print(package.__file__)\n"
        "from piecework_orchestrator.infra.templates import Part, load\n"
        "for part in Part: assert load(part).body['Resources']"
    )
    found = subprocess.check_output(
        [project.python, "-c", source], cwd=project.folder, text=True
    ).split()

    assert len(PACKAGES) == len(found)
    assert all(Path(file).is_relative_to(project.packages) for file in found)


@pytest.mark.usefixtures("emulator_python")
def test_the_demo_keeps_its_guarantees_and_leaves_nothing_running(
    project: Project, tmp_path: Path
) -> None:
    results = tmp_path / "results"

    shown = project.run("piecework_orchestrator", "demo", "--out", str(results))

    lines = shown.splitlines()
    assert PROMISED.fullmatch(lines[-1]), shown
    told = [line.split()[0] for line in lines if line.strip()]
    for scene in ("doctor", "submit", "faults", "kill", "takeover", "dead", "redrive"):
        assert scene in told
    forms = {form_of(line) for line in lines}
    assert [] == [li for li in TRANSCRIPT.splitlines() if form_of(li) not in forms]
    certificate = json.loads((results / "certificate.json").read_text("utf-8"))
    assert "SUCCEEDED" == certificate["status"]
    assert {str(number) for number in range(22)} == set(certificate["results"])
    report = (results / "report.md").read_text("utf-8")
    assert "22 clauses reviewed.\n" in report
    assert (results / "report.html").stat().st_size > len(report)
    assert [] == list((project.folder / ".piecework").iterdir())


def test_the_simulator_and_each_new_project_run_and_pass_their_tests(
    project: Project,
) -> None:
    """`tests/typed` checks their types."""
    for name, *options in STARTERS:
        project.run("piecework_orchestrator", "init", name, *options)
    simulator = ("piecework_simulation", *SIMULATED)
    programs = [("", simulator)]
    for name, *_ in STARTERS:
        programs += [(name, ("pytest", "-q")), (name, RUN_PROJECT)]
    shown, *of_projects = project.run_each(programs)
    assert "0 violations in 5 schedules\n" in shown
    for (name, *_), tested, ran in zip(
        STARTERS, of_projects[::2], of_projects[1::2], strict=True
    ):
        assert " passed" in tested
        rows = (project.folder / name / "rows.jsonl").read_text().splitlines()
        results = [json.loads(line) for line in ran.splitlines()]
        assert {"SUCCEEDED"} == {result["status"] for result in results}
        assert len(rows) == len(results)
