"""`ui`: serve the pages on which operators see and mend jobs."""

from __future__ import annotations

import os
import socket
from typing import Annotated

import typer

from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_client
from piecework_orchestrator.client import Client
from piecework_orchestrator.reading.times import parse_limit

#: The operator's own token; required on an address that other machines can reach.
TOKEN = "PIECEWORK_UI_TOKEN"  # noqa: S105 -- the name of a variable
DEFAULT_PORT = 8321


def ui(
    host: Annotated[
        str, typer.Option(help="The address to listen on.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port; 0 chooses a free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A further `Host` of the page, as browsers send it.", metavar="HOST"
        ),
    ] = None,
    allow_actions: Annotated[
        bool,
        typer.Option("--allow-actions", help="Allow changes from other machines, too."),
    ] = False,
    show_payloads: Annotated[
        bool,
        typer.Option(
            "--show-payloads", help="Show inputs and results to other machines, too."
        ),
    ] = False,
    poll: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="The time between two reads at least, such as 10s.",
            show_default="2s on AWS, less on this machine",
        ),
    ] = "",
) -> None:
    """Serve a web page to see jobs and mend them.

    The page listens on this machine only. On another address it requires a token in
    PIECEWORK_UI_TOKEN, only reads, and hides inputs and results.
    """
    poll_s = parse_limit(poll)

    async def run(client: Client, out: Output) -> None:
        with naming_extras():
            import uvicorn

            from piecework_orchestrator.ui.access import in_url, make_access
            from piecework_orchestrator.ui.app import make_app
        with listen(host, port) as listening:
            bound = listening.getsockname()[1]
            access = make_access(
                (host, bound),
                os.environ.get(TOKEN, ""),
                allowed_hosts=allowed_host or (),
                allow_actions=allow_actions,
                show_payloads=show_payloads,
            )
            config = uvicorn.Config(
                make_app(client, access, poll_s), log_config=None, server_header=False
            )
            config.timeout_graceful_shutdown = 5
            out.tell(f"http://{in_url(host)}:{bound}/?token={access.token}")
            out.say("Ctrl-C ends it; jobs continue")
            await uvicorn.Server(config).serve([listening])

    run_client(run, Format.TABLE)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        UsageError: `cli.usage.invalid`: the address or the port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "unknown address"
        message = f"The page cannot listen on {host}, port {port}: {reason}."
        raise UsageError(message, next_step="`piecework ui --port 0`") from None
