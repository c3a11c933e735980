"""Write every page that the code can print, those that are stale.

`make docs` runs it, without a network. `make verify` runs it with `--check`, which
prints what would change.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

import typer.main
from navigation import index_page, llms_page

import bench.limits.page
import bench.page
import piecework.errors.page
import piecework.settings
import piecework_simulation.__main__
import piecework_simulation.ask_command
import piecework_simulation.dev_command
import piecework_simulation.push_command
import piecework_simulation.run_command
import piecework_worker.__main__
from piecework.domain.batch import (
    AnswerRow,
    AskedRow,
    CollectorRow,
    PlannedRow,
    RequestRow,
)
from piecework.domain.child import ChildRow
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow, OpenLetterRow
from piecework.domain.fields import Field, Present, fields_of
from piecework.domain.job import Job
from piecework.domain.notification import NotificationRow
from piecework.domain.occasion import Occasion
from piecework.domain.question import QuestionRow, WaitRow
from piecework.domain.rows import (
    CallsRow,
    CompensatedRow,
    CompensationRow,
    EffectRow,
    ErrorRow,
    EventRow,
    StageRow,
    WorkerRow,
)
from piecework.domain.webhook import Webhook, WebhookDelivery
from piecework.explain.findings import FINDINGS, Rank
from piecework.settings import PREFIX, Settings
from piecework_orchestrator.cli.app import LazyCommand, app
from piecework_orchestrator.cli.global_options import is_common

#: These commands pass their arguments to a program of its own.
PROGRAMS = {
    "ask": typer.main.get_command(piecework_simulation.ask_command.app),
    "dev": typer.main.get_command(piecework_simulation.dev_command.app),
    "push": typer.main.get_command(piecework_simulation.push_command.app),
    "run": typer.main.get_command(piecework_simulation.run_command.app),
    "worker": piecework_worker.__main__.make_parser(),
    "simulate": typer.main.get_command(piecework_simulation.__main__.app),
}
ROOT = Path(__file__).parents[2]
SETTINGS = {each.name: each for each in fields(Settings)}
BOUNDS = {"ge": ">= ", "gt": "> ", "le": "<= ", "lt": "< "}

SETTINGS_HEAD = """\
# Settings

Settings are environment variables.
`piecework config show` prints all of them with their values, and where AWS is.
`piecework config validate` checks them.
This page is generated from `{source}`.

| variable | default | allowed | meaning |
| --- | --- | --- | --- |
"""

SETTINGS_FOOT = """
## Where AWS is

The first of these that applies decides the endpoint:

1. `AWS_ENDPOINT_URL`, if it is set.
2. The embedded AWS that `piecework up` started in this folder or in a folder above.
3. AWS itself, with the usual credentials and region.

If a variable such as `AWS_PROFILE` names an account, a found embedded AWS is refused:
`embedded.state.ambiguous`.
`PIECEWORK_STATE_DIR` names its folder.
"""

COMMANDS_HEAD = """\
# Command line

`piecework COMMAND --help` prints the same text.
Results go to standard output; progress, logs and errors go to standard error.
`-o json` prints a result for programs; `-o jsonl` prints one line for each row.
An error has a code, one sentence and the next step: [error codes](../error-codes.md).
If you ask for `-o json`, `jsonl` or `yaml`, the error is a document on standard error:
`{{"error": {{"code": …, "message": …, "next_step": …}}}}`. The exit code stays.
A fault of Piecework itself has the name of its exception as its code.
On a terminal that is too narrow for a table, columns are left out, and named below it.
This page is generated from the commands.

## Options of every command

They are valid before and after the words of a command.

| option | meaning |
| --- | --- |
{common}

`piecework --install-completion` completes commands, options, statuses, error codes and
ids of jobs in bash, zsh and fish.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | Success; a job that the command waited for is SUCCEEDED. |
| 1 | The job is FAILED, or PARTIAL without dead letters; or something else failed. |
| 2 | The usage, the input or the configuration is wrong. |
| 3 | The job, chunk or object does not exist. |
| 4 | The job was cancelled. |
| 5 | The job is PARTIAL, and has open dead letters. Or a `dlq` command skipped a job, \
could not read a dead letter, or stopped a canary. |
| 6 | AWS does not answer. |
| 7 | The time limit of the wait passed. |
| 8 | The worker reached its memory limit and released its chunks; start another one. |
| 9 | The worker lacked memory, disk, handles, threads or processes; start another. |
| 9 | `piecework infra diff --exit-code` found a difference. |
| 130 | The command was interrupted. |
"""

#: The ranks of findings in words.
RANKS = {
    Rank.BLOCKS_JOB: "the whole job",
    Rank.NEEDS_OPERATOR: "an operator",
    Rank.PASSES: "passes",
    Rank.NOTE: "note",
}
FINDINGS_HEAD = """\
# Findings

`piecework jobs explain JOB` lists the findings about a job, the most important first;
[Why is it stuck](../stuck.md) tells how to read them.
The column *waits for* ranks them: what stops the whole job comes first, in the order of
this table. Then comes what needs an operator, and then what passes by itself; in both,
the finding with the most chunks comes first. A job does not wait for a note.
A finding keeps its code. This page is generated from
`piecework/explain/findings.py`.

| code | waits for | cause | what helps | command |
| --- | --- | --- | --- | --- |
"""

#: The rows by their titles, in the order of the page of tables, and their sort keys.
ROWS: dict[str, tuple[type, str]] = {
    "A job": (Job, "META"),
    "A chunk": (Chunk, "CHUNK#<number>, JOIN"),
    "A stage, a result": (
        StageRow,
        "WORK#<number>#STAGE#<stage>#<fence>, RESULT#<number>, RESULT#JOIN",
    ),
    "A page of the call journal": (
        CallsRow,
        "WORK#<number>#CALLS#<gen>#<fence>#<page>",
    ),
    "An effect": (EffectRow, "WORK#<number>#EFFECT#<key>"),
    "A question": (QuestionRow, "WORK#<number>#QUESTION#<stage>#<name>"),
    "A wait": (WaitRow, "WAIT#<time>#<number>"),
    "A child of a job": (ChildRow, "CHILD#<job>"),
    "A request for a batch": (RequestRow, "WORK#<number>#BATCH#<fence>#<part>"),
    "An answer of a batch": (AnswerRow, "WORK#<number>#ANSWER#<custom id>#<fence>"),
    "A gathered request": (
        AskedRow,
        "ASKED#<time>#<job>#<number>#<fence>#<part>",
    ),
    "A batch": (PlannedRow, "BATCH#<digest>, ENDED#<time>#<digest>"),
    "The collector of a model": (CollectorRow, "COLLECTOR#T#<tenant>#<model>"),
    "An error": (ErrorRow, "WORK#<number>#ERROR#<gen>#<fence>"),
    "The cause of a compensation": (
        CompensationRow,
        "WORK#<number>#COMPENSATION#<gen>",
    ),
    "A compensated stage": (
        CompensatedRow,
        "WORK#<number>#COMPENSATED#<gen>#<stage>",
    ),
    "An event": (EventRow, "EVENT#<time>#<event>#<token>"),
    "A notification": (NotificationRow, "NOTIFICATION#<gen>#<event>"),
    "A webhook": (Webhook, "<name>"),
    "A delivery": (WebhookDelivery, "DELIVERY#<webhook>#<event>"),
    "An occasion": (Occasion, "OCCASION#<event>#<subject>#<pipeline>"),
    "A worker report": (WorkerRow, "<worker>"),
    "A dead letter": (DeadLetterRow, "CHUNK#<number>#GEN#<gen>"),
    "An open dead letter": (OpenLetterRow, "<time>#<job>#CHUNK#<number>#GEN#<gen>"),
}
ROWS_HEAD = """\
# The attributes of rows

[Tables](../tables.md) says in which partition a row is, when it is written and how to
read it. This page is generated from the declarations in `piecework/domain/`.

What a row is without an attribute stands after *empty*, *0* or *None*.
*Present or absent*: only that a row has it counts.
Times are UTC text that sorts; a number of seconds since 1970 is only `expires_at`.
Each row has `pk`, `sk` and `v`. Many repeat parts of their keys: `tenant`, `job`,
`chunk` and, if it is not named below, `gen`.
"""


class Row(NamedTuple):
    """Fields of the settings that share one description."""

    names: list[str]
    description: str


def settings_page() -> str:
    """Return the page of the settings."""
    source = Path(piecework.settings.__file__)
    place = source.relative_to(ROOT).as_posix()
    rows = [
        f"| {variables(row)} | {defaults(row)} | {allowed(row)} | {row.description} |"
        for row in described(source.read_text("utf-8"))
    ]
    return SETTINGS_HEAD.format(source=place) + "\n".join(rows) + "\n" + SETTINGS_FOOT


def described(source: str) -> list[Row]:
    """Group the fields by the `#:` comment above them.

    Raises:
        ValueError: A field has no comment above it.
    """
    lines = source.splitlines()
    rows: list[Row] = []
    for name, line in field_lines(source):
        comment: list[str] = []
        above = line - 2
        while lines[above].lstrip().startswith("#:"):
            comment.insert(0, lines[above].lstrip().removeprefix("#:").strip())
            above -= 1
        if comment:
            rows.append(Row([name], " ".join(comment).replace("|", "\\|")))
        elif rows and lines[above].strip():
            rows[-1].names.append(name)
        else:
            message = f"The setting {name} has no comment above it."
            raise ValueError(message)
    return rows


def field_lines(source: str) -> Iterator[tuple[str, int]]:
    """Yield each field of the settings with the number of its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name == "Settings":
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(
                    part.target, ast.Name
                ):
                    yield part.target.id, part.lineno


def variables(row: Row) -> str:
    """Return the environment variables of a row."""
    return ", ".join(f"`{PREFIX}{name.upper()}`" for name in row.names)


def defaults(row: Row) -> str:
    """Return the default values of a row."""
    return ", ".join(default(name) for name in row.names)


def default(name: str) -> str:
    """Return one default value; a text is set as code."""
    value = SETTINGS[name].default
    if isinstance(value, str):
        return f"`{value}`" if value else "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def allowed(row: Row) -> str:
    """Return the bounds of a row; each bound once."""
    return "; ".join(dict.fromkeys(filter(None, map(bounds, row.names))))


def bounds(name: str) -> str:
    """Return the bounds of one setting."""
    limits = SETTINGS[name].metadata
    found = [f"{sign}{limits[key]:g}" for key, sign in BOUNDS.items() if key in limits]
    words = [*limits.get("words", ()), *filter(None, [limits.get("pattern")])]
    return ", ".join([*found, *(f"`{word}`" for word in words)])


def command_page() -> str:
    """Return the page of the command line."""
    root: Any = typer.main.get_command(app)
    sections = [section(path, command) for path, command in commands(root, [])]
    context = root.make_context("piecework", [], resilient_parsing=True)
    common = "".join(
        parameter_row(each, context) for each in root.params if is_common(each)
    )
    return COMMANDS_HEAD.format(common=common) + "".join(sections)


def commands(group: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield each command and each group of commands with its words."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield [*path, name], whole_command(name, command)
        if hasattr(command, "commands"):
            yield from commands(command, [*path, name])


def whole_command(name: str, command: Any) -> Any:
    """Return a command with its options; the table has only its first sentence."""
    if name in PROGRAMS:
        return PROGRAMS[name]
    return command.load() if isinstance(command, LazyCommand) else command


def section(path: list[str], command: Any) -> str:
    """Return the section of one command."""
    words = " ".join(["piecework", *path])
    if isinstance(command, ArgumentParser):
        return program_section(words, command)
    help_text = paragraphs(command.help or "")
    if hasattr(command, "commands"):
        return f"\n## {words}\n\n{help_text}\n"
    level = "##" if len(path) == 1 else "###"
    context = command.make_context(words, [], resilient_parsing=True)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    rows = list(parameters(command, context))
    head = "\n| argument or option | meaning |\n| --- | --- |\n"
    table = head + "".join(rows) if rows else ""
    return f"\n{level} {words}\n\n{help_text}\n\n```\n{usage}\n```\n{table}"


def program_section(words: str, parser: ArgumentParser) -> str:
    """Return the section of a program with a parser of the standard library."""
    rows = "".join(
        f"| `{cell(' / '.join(action.option_strings))}"
        f"{f' {action.metavar}' if action.metavar else ''}` "
        f"| {escaped(action.help or '')}{' [required]' if action.required else ''} |\n"
        for action in parser._actions  # noqa: SLF001 -- typer gives no other list
        if "--help" not in action.option_strings
    )
    head = "\n| argument or option | meaning |\n| --- | --- |\n"
    text = paragraphs(parser.description or "")
    return f"\n## {words}\n\n{text}\n\n```\n{words} [OPTIONS]\n```\n{head}{rows}"


def parameters(command: Any, context: Any) -> Iterator[str]:
    """Yield a row for each parameter except `--help`."""
    for parameter in command.get_params(context):
        if parameter.name != "help" and not is_common(parameter):
            yield parameter_row(parameter, context)


def parameter_row(parameter: Any, context: Any) -> str:
    """Return the row of a parameter; empty if it is hidden."""
    record = parameter.get_help_record(context)
    if record is None:
        return ""
    form, meaning = (cell(text) for text in record)
    return f"| `{form}` | {escaped(meaning)} |\n"


def cell(text: str) -> str:
    """Return a text on one line, in a form that does not end a cell of a table."""
    return " ".join(text.split()).replace("|", "/")


def paragraphs(text: str) -> str:
    """Return a help text with one line for each paragraph."""
    parts = re.split(r"\n\s*\n", text.replace("\b", "").replace("\f", "\n\n"))
    return "\n\n".join(
        escaped(" ".join(part.split())) for part in parts if part.strip()
    )


def escaped(text: str) -> str:
    """Return a text in which Markdown finds neither a tag nor a link."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([<>*])", r"\\\1", part)
        for part in parts
    )


def findings_page() -> str:
    """Return the page of the findings of `jobs explain`."""
    rows = [
        f"| `{kind.code}` | {RANKS[kind.rank]} | {kind.cause} | {kind.helps} "
        f"| `{cell(kind.command)}` |"
        for kind in FINDINGS.values()
    ]
    return FINDINGS_HEAD + "\n".join(rows) + "\n"


def rows_page() -> str:
    """Return the page of the attributes of rows."""
    return ROWS_HEAD + "".join(
        row_section(title, row, sk) for title, (row, sk) in ROWS.items()
    )


def row_section(title: str, row: type, sk: str) -> str:
    """Return the section of one row: its sort keys, and what its attributes are."""
    keys = ", ".join(f"`{key}`" for key in sk.split(", "))
    lines = [*documented(row), *map(field_line, columns(row))]
    head = f"\n## {title}\n\n`sk`: {keys}\n\n| attribute | type | is |"
    return "\n".join([head, "| --- | --- | --- |", *lines, ""])


def columns(row: type) -> Iterator[Field[Any]]:
    """Yield a field for each attribute; `Present` only without a better one."""
    declared = fields_of(row).values()
    values = {each.attribute for each in declared if not isinstance(each, Present)}
    for each in declared:
        is_key = each.attribute in {"pk", "sk"}
        if not is_key and not (isinstance(each, Present) and each.attribute in values):
            yield each


def field_line(field: Field[Any]) -> str:
    """Return the line of one attribute."""
    return f"| `{field.attribute}` | {field.kind} | {escaped(cell(field.meaning))} |"


def documented(row: type) -> Iterator[str]:
    """Yield a line for each attribute that is checked when the row is read."""
    kinds = {"int": "number"}
    docs = re.findall(r"(?m)^    (\w+): (.+(?:\n {8,}.+)*)", inspect.getdoc(row) or "")
    meanings = {name: " ".join(text.split()) for name, text in docs}
    for field in fields(row):
        if field.name in meanings:
            kind = kinds.get(str(field.type), "text")
            yield f"| `{field.name}` | {kind} | {escaped(meanings[field.name])} |"


#: The index is last: it has the first sentences of the others.
PAGES: dict[str, Callable[[], str]] = {
    "docs/aws-limits.md": bench.limits.page.page,
    "docs/error-codes.md": piecework.errors.page.page,
    "docs/performance.md": bench.page.stored,
    "docs/reference/command-line.md": command_page,
    "docs/reference/findings.md": findings_page,
    "docs/reference/rows.md": rows_page,
    "docs/reference/settings.md": settings_page,
    "docs/README.md": index_page,
    "llms.txt": llms_page,
}


def main(words: Sequence[str]) -> int:
    """Write the stale pages; with `--check` print their differences, and return 1."""
    failed = 0
    for name, page in PAGES.items():
        path = ROOT / name
        old, new = path.read_text("utf-8") if path.is_file() else "", page()
        if old == new:
            continue
        if list(words) != ["--check"]:
            path.write_text(new, "utf-8")
            sys.stdout.write(f"{name} is written anew\n")
            continue
        lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
        sys.stdout.writelines(unified_diff(*lines, name, name, n=0))
        sys.stderr.write(f"{name} is stale: run make docs\n")
        failed = 1
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
