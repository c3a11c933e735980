"""The table of all commands, and the command line that is made of it.

`--help` and completion of command names read only the table. The module of a command is
imported when the command is used. So no command loads the modules of another one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module  # noqa: TID251 -- COMMANDS names the modules
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
import typer.main
from typer.core import TyperCommand

from piecework_orchestrator.cli.global_options import (
    CONTEXT,
    Group,
    WithCommon,
    add_common,
    command_class,
    usage_error,
)
from piecework_orchestrator.cli.plain import asked_format
from piecework_orchestrator.cli.programs import become


class Row(NamedTuple):
    """A command in the table.

    Attributes:
        place: `module:function` in this package; of a program: its module.
        help: The first sentence of the help.
        program: Whether the command is a program that gets all arguments.
    """

    place: str
    help: str
    program: bool = False


#: The groups of commands, in the order of the help; commands alone come first.
GROUPS = {
    "jobs": "List, show and explain jobs; cancel, retry, pause and delete them.",
    "chunks": "List and show the chunks of a job.",
    "dlq": "List, redrive, compensate, discard and export dead letters.",
    "approvals": "List, show and answer the questions that stages ask people.",
    "effects": "Resolve effects whose outcome is unknown.",
    "limits": "List and change what the fleet may use of its dependencies.",
    "pipelines": "List the pipelines, pause them and resume them.",
    "batches": "List the batches of providers, cancel one, or let its calls go direct.",
    "webhooks": "Tell other systems of events: set, show and try webhooks.",
    "budgets": "List and set what tenants may spend in a day.",
    "infra": "Deploy the stacks to AWS; compare, price and remove them.",
    "config": "Show and validate the settings.",
}

#: The commands as an operator types them, in the order in which a new user needs them.
COMMANDS = {
    "demo": Row("local:demo", "Run the demo: review a contract under faults."),
    "init": Row("init:init", "Write a new project."),
    "run": Row(
        "piecework_simulation.run_command",
        "Run a pipeline here and print the results.",
        program=True,
    ),
    "ask": Row(
        "piecework_simulation.ask_command",
        "Ask a model about each row; print the answers.",
        program=True,
    ),
    "push": Row(
        "piecework_simulation.push_command",
        "Push what is left of a run to the deployment as a job.",
        program=True,
    ),
    "dev": Row(
        "piecework_simulation.dev_command",
        "Run AWS and a worker here; reload changed code.",
        program=True,
    ),
    "up": Row("local:up", "Start the embedded AWS on this machine."),
    "down": Row("local:down", "Stop the embedded AWS; its data is deleted."),
    "doctor": Row("local:doctor", "Check everything that a run needs."),
    "submit": Row("submit:submit", "Submit documents or rows to a pipeline as a job."),
    "results": Row("results:results", "Print the result of each chunk."),
    "ui": Row("ui:ui", "Serve a web page to see jobs and mend them."),
    "reconcile": Row(
        "reconcile:reconcile",
        "Finish interrupted work, and send lost messages again.",
    ),
    "worker": Row(
        "piecework_worker",
        "Run a worker: `piecework-worker` with these arguments.",
        program=True,
    ),
    "simulate": Row(
        "piecework_simulation",
        "Simulate a pipeline under injected faults.",
        program=True,
    ),
    "events": Row(
        "events:list_events",
        "List the events of the environment and of the tenant, the newest first.",
    ),
    "explain-code": Row(
        "explain_code:explain_code", "Explain an error code, or list all."
    ),
    "jobs list": Row("jobs:list_jobs", "List jobs, the newest first."),
    "jobs show": Row(
        "jobs:show_job", "Show a job, its chunks by status, and the next command."
    ),
    "jobs watch": Row("jobs:watch_job", "Watch a job until it ends."),
    "jobs explain": Row(
        "jobs:explain_job", "Explain why a job has not ended, and which command helps."
    ),
    "jobs timeline": Row(
        "jobs:show_timeline", "Draw what happened to a job or a chunk, and when."
    ),
    "jobs diff": Row(
        "diff:diff_jobs",
        "Compare two jobs: the chunks whose results differ, with code and cost.",
    ),
    "jobs events": Row(
        "jobs:list_events", "List the events of a job, the oldest first."
    ),
    "jobs cancel": Row(
        "cancel:cancel_job", "Cancel a job; chunks that have a result keep it."
    ),
    "jobs delete": Row("delete:delete_job", "Delete all data of a job that has ended."),
    "jobs set-budget": Row(
        "pause:set_budget", "Change what the calls of a job may spend, and resume it."
    ),
    "jobs set-priority": Row(
        "pause:set_priority", "Change the share of a job in the workers."
    ),
    "jobs unpin": Row(
        "pause:unpin",
        "Let workers of any code version run a job that was submitted with `--pin`.",
    ),
    "jobs accept-changes": Row(
        "changes:accept_changes",
        "Let newer code go on with the chunks that it has stopped.",
    ),
    "jobs retry": Row(
        "retry:retry_job", "Retry a job that ended PARTIAL, FAILED or CANCELLED."
    ),
    "jobs pause": Row("pause:pause_job", "Pause a job: no further call starts."),
    "jobs resume": Row("pause:resume_job", "Resume a PAUSED job."),
    "jobs cost": Row(
        "cost:job_cost",
        "Show the cost of a job: what it used, and costs until its deletion.",
    ),
    "jobs forecast": Row(
        "forecast:job_forecast",
        "Forecast calls, tokens, cost and time of the rest of a job with a sample.",
    ),
    "chunks list": Row("chunks:list_chunks", "List the chunks of a job by number."),
    "chunks show": Row(
        "chunks:show_chunk",
        "Show a chunk with its stages, effects, errors, compensations and result.",
    ),
    "chunks calls": Row(
        "chunks:list_calls",
        "List the calls of a chunk, or show one with its arguments and answer.",
    ),
    "dlq list": Row("dlq:list_letters", "List dead letters, the newest first."),
    "dlq show": Row("dlq:show_letter", "Show the last dead letter of a chunk."),
    "dlq stats": Row(
        "dlq:count_letters",
        "Count dead letters by cause, the most frequent first.",
    ),
    "dlq export": Row(
        "dlq:export_letters",
        "Export dead letters completely, one JSON document per line.",
    ),
    "dlq discard": Row(
        "dlq_discard:discard_letters", "Discard dead letters: their chunks stay dead."
    ),
    "dlq compensate": Row(
        "dlq_compensate:compensate_letters",
        "Run the failed compensations of dead letters again, or resolve them by hand.",
    ),
    "dlq redrive": Row(
        "dlq_redrive:redrive_letters", "Redrive dead letters after a fix."
    ),
    "approvals list": Row(
        "approvals:list_approvals",
        "List the open questions of stages; within a job, the next due first.",
    ),
    "approvals show": Row(
        "approvals:show_approval",
        "Show a question of a chunk, and the answer that counts.",
    ),
    "approvals answer": Row(
        "approvals:answer_approval",
        "Answer the open question of a chunk; its stage goes on at once.",
    ),
    "effects list": Row(
        "effects:list_effects",
        "List the effects in doubt of the chunks that have ended.",
    ),
    "effects resolve": Row(
        "effects:resolve_effect",
        "Record whether an effect in doubt happened; check the other system first.",
    ),
    "limits list": Row(
        "limits:list_limits", "List the limits of the dependencies that have any."
    ),
    "limits pause": Row(
        "limits:pause_dependency",
        "Pause a dependency: no further call to it starts.",
    ),
    "limits resume": Row("limits:resume_dependency", "Resume a paused dependency."),
    "limits set": Row(
        "limits:set_limits",
        "Change the limits of a dependency in force, without a deployment.",
    ),
    "pipelines list": Row(
        "pipelines:list_pipelines",
        "List the pipelines that a worker has, an active job runs, or a pause names.",
    ),
    "pipelines pause": Row(
        "pipelines:pause_pipeline",
        "Pause a pipeline: no further call of its jobs starts.",
    ),
    "pipelines resume": Row(
        "pipelines:resume_pipeline",
        "Resume a paused pipeline, and the jobs that it has paused.",
    ),
    "batches list": Row(
        "batches:list_batches",
        "List the batches that are open, and what is gathered for the next ones.",
    ),
    "batches show": Row(
        "batches:show_batch",
        "Show a batch: its jobs and chunks, its polls, and why it waits.",
    ),
    "batches cancel": Row(
        "batches:cancel_batch",
        "Cancel a batch: what it has answered is taken, the rest goes on.",
    ),
    "batches direct": Row(
        "batches:send_direct",
        "Let gathered requests go direct, or the calls of a batch: at the full price.",
    ),
    "webhooks list": Row(
        "webhooks:list_webhooks",
        "List the webhooks, and how many events are pending or failed.",
    ),
    "webhooks set": Row(
        "webhooks:set_webhook", "Set a webhook: an address that is told of events."
    ),
    "webhooks show": Row(
        "webhooks:show_webhook",
        "Show a webhook and its events, with the reason of each failure.",
    ),
    "webhooks test": Row(
        "webhooks:try_webhook",
        "Write a test event for a webhook; the reconciler delivers it.",
    ),
    "webhooks retry": Row(
        "webhooks:retry_webhook",
        "Send the failed events of a webhook again, with nine new attempts.",
    ),
    "webhooks remove": Row(
        "webhooks:remove_webhook",
        "Remove a webhook; its pending events are not sent any more.",
    ),
    "budgets list": Row(
        "budgets:list_budgets", "List the daily budgets of the tenants that have one."
    ),
    "budgets set": Row(
        "budgets:set_budget", "Set what all jobs of a tenant may spend in a day."
    ),
    "infra deploy": Row(
        "infra:deploy_stacks", "Deploy the stacks after a confirmation."
    ),
    "infra diff": Row(
        "infra:diff_stacks", "Show what a deploy would change; change nothing."
    ),
    "infra destroy": Row(
        "infra_destroy:destroy_stacks", "Remove the stacks, but keep the data."
    ),
    "infra render": Row("infra:render_templates", "Print or write the templates."),
    "infra status": Row(
        "infra:show_status", "Show the status, differences and outputs."
    ),
    "infra cost": Row("cost:infra_cost", "Show the price of a month without a job."),
    "config show": Row(
        "config:show", "Show every setting and the AWS endpoint, each with its source."
    ),
    "config validate": Row(
        "config:validate", "Check the settings, and the declarations of pipelines."
    ),
}


class LazyCommand(TyperCommand):
    """A command of the table; its module is imported when the command is used."""

    def __init__(self, words: str, row: Row) -> None:
        name = words.rpartition(" ")[2]
        super().__init__(name, help=row.help, rich_markup_mode=None)
        self.words, self.place = words, row.place

    def load(self) -> Any:
        """Import the module; return the command with its options and its whole help."""
        module, _, function = self.place.partition(":")
        found = getattr(import_module(f"{__package__}.{module}"), function)
        alone = typer.Typer(
            add_completion=False,
            rich_markup_mode=None,
            context_settings=CONTEXT,
            pretty_exceptions_enable=False,
        )
        alone.command(self.name, cls=command_class(self.words))(found)
        return typer.main.get_command(alone)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return the context of the loaded command, which the caller then runs."""
        return self.load().make_context(*args, **extra)


class Program(WithCommon, TyperCommand):
    """A command that becomes another program, which gets all arguments."""

    def __init__(self, words: str, row: Row) -> None:
        super().__init__(
            words,
            help=row.help,
            rich_markup_mode=None,
            add_help_option=False,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )
        add_common(self)
        self.module = row.place

    def invoke(self, ctx: Any) -> None:
        """Replace this process by the program."""
        become(self.module, ctx.args)


class CommandLine(Group):
    """The commands and the groups of the table."""

    explains_common = True

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        groups = {name: make_group(name, text) for name, text in GROUPS.items()}
        for words, row in COMMANDS.items():
            group = words.rpartition(" ")[0]
            kind = Program if row.program else LazyCommand
            (groups[group] if group else self).add_command(kind(words, row))
        self.commands.update(groups)

    def main(self, args: Any = None, *rest: Any, **extra: Any) -> Any:
        """Run a command line; an error of usage has a code, as any other error."""
        words = sys.argv[1:] if args is None else list(args)
        if not extra.get("standalone_mode", True):
            return super().main(words, *rest, **extra)
        run = partial(super().main, words, *rest, **extra | {"standalone_mode": False})
        sys.exit(usage_reported(run, words))


def run_alone(command: typer.Typer, name: str) -> NoReturn:
    """Run a command that is a process of its own; `name`: as operators type it."""
    words = sys.argv[1:]
    run = partial(command, words, prog_name=name, standalone_mode=False)
    sys.exit(usage_reported(run, words))


def usage_reported(run: Callable[[], Any], words: Sequence[str]) -> Any:
    """Run a command line; return its exit code. An error of usage has a code, too."""
    try:
        return run()
    except usage_error() as error:
        return report_usage(error, asked_format(words) or "table")


def report_usage(error: Any, form: str) -> int:
    """Write an error of usage; return its exit code."""
    # Imported here: `--help` does not load them.
    from piecework.errors import UsageError
    from piecework_orchestrator.cli.options import Format
    from piecework_orchestrator.cli.output import Output
    from piecework_orchestrator.cli.run import report_error

    path = error.ctx.command_path if error.ctx else "piecework"
    known = UsageError(error.format_message(), next_step=f"{path} --help")
    report_error(known, Output(Format(form)))
    return int(error.exit_code)


def make_group(name: str, text: str) -> Group:
    """Return an empty group; without a command it shows its help."""
    return Group(name=name, help=text, no_args_is_help=True, rich_markup_mode=None)


app = typer.Typer(
    name="piecework",
    cls=CommandLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
)


def print_version(requested: bool) -> None:
    """Print the version and exit, if `--version` was given."""
    if requested:
        from piecework.domain.versions import (
            version_line,  # loads the package's metadata
        )

        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def piecework(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Split a job into chunks, process them over SQS, and account for each chunk."""
    del version  # the callback has printed it
