"""What our code may not do, read from its syntax; each exception by file and name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("piecework", "workers", "orchestrator")
#: Calls by which a text becomes code, an object, or a program.
FORBIDDEN_CALLS = {
    *("eval", "exec", "compile", "__import__", "execfile"),
    *(
        "importlib.import_module",
        "importlib.reload",
        "runpy.run_module",
        "runpy.run_path",
    ),
    *("os.system", "os.popen", "os.execv", "os.execve", "os.execvp", "os.fork"),
    *("pickle.load", "pickle.loads", "marshal.loads", "shelve.open", "dill.loads"),
    *("yaml.load", "yaml.full_load", "yaml.unsafe_load", "yaml.load_all"),
    *(
        "subprocess.run",
        "subprocess.Popen",
        "subprocess.call",
        "subprocess.check_output",
    ),
    *("subprocess.check_call", "subprocess.getoutput"),
    *("asyncio.create_subprocess_shell", "asyncio.create_subprocess_exec"),
    *("tempfile.mktemp", "ctypes.CDLL", "webbrowser.open"),
}
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "jsonpickle"}
#: Who may, and why: none of it is fed by a message, an item or an object.
ALLOWED = {
    # the names of `--pipelines` and `--pipeline`: a person's, or a deployment's
    ("piecework/loading.py", "importlib.import_module"),
    # the emulator's own programs, made from the lock
    ("orchestrator/piecework_orchestrator/embedded/environment.py", "subprocess.run"),
    ("orchestrator/piecework_orchestrator/embedded/server.py", "subprocess.Popen"),
    ("orchestrator/piecework_orchestrator/embedded/server.py", "subprocess.run"),
    # our other programs, in this one's place, with the arguments of its command line
    ("orchestrator/piecework_orchestrator/cli/app.py", "os.execv"),
    # the modules of the commands, which a table in that file names
    ("orchestrator/piecework_orchestrator/cli/app.py", "importlib.import_module"),
    # our own templates, with a SafeLoader that knows CloudFormation's short forms
    ("orchestrator/piecework_orchestrator/infra/templates.py", "yaml.load"),
    # the demo's own workers and provider
    ("orchestrator/piecework_orchestrator/demo/processes.py", "subprocess.Popen"),
    # the child of isolated stages: our own module, its arguments from the command line
    ("workers/piecework_worker/isolation/process.py", "asyncio.create_subprocess_exec"),
    # prctl: die with the parent
    ("workers/piecework_worker/isolation/child.py", "ctypes.CDLL"),
}


def violations() -> list[str]:
    """Return what is forbidden and not excepted, and exceptions that nothing needs."""
    used = set[tuple[str, str]]()
    found = []
    for path in sorted(
        p for package in PACKAGES for p in (ROOT / package).rglob("*.py")
    ):
        name = path.relative_to(ROOT).as_posix()
        for what, line in uses(ast.parse(path.read_text("utf-8"))):
            used.add((name, what))
            if (name, what) not in ALLOWED:
                found.append(f"{name}:{line} {what}")
    needless = [f"{name} {what}: nothing needs it" for name, what in ALLOWED - used]
    return [*found, *sorted(needless)]


def uses(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield what is forbidden in a file, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in FORBIDDEN_CALLS:
                yield name, node.lineno
            for word in node.keywords:
                if word.arg == "shell" and not is_false(word.value):
                    yield "shell=True", node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in FORBIDDEN_MODULES:
                    yield f"import {alias.name}", node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from from_imports(node)


def from_imports(node: ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Yield what a `from … import` brings in that is forbidden by its full name."""
    module = node.module or ""
    if module.partition(".")[0] in FORBIDDEN_MODULES:
        yield f"import {module}", node.lineno
    for alias in node.names:
        if f"{module}.{alias.name}" in FORBIDDEN_CALLS:
            yield f"{module}.{alias.name}", node.lineno


def dotted(node: ast.expr) -> str:
    """Return the name that is called; empty: it is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def is_false(node: ast.expr) -> bool:
    """Return whether an argument is plainly False."""
    return isinstance(node, ast.Constant) and node.value is False
