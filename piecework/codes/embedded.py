"""Codes of the AWS emulator that runs on this machine."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "embedded.deploy.failed",
        _P,
        "The emulator runs, but `infra/data.yaml` could not be deployed to it.",
        "Start again with `piecework down` and `piecework up`.",
    ),
    Code(
        "embedded.endpoint.not_loopback",
        _P,
        "This command works on this machine only, and the endpoint is elsewhere.",
        "Unset `AWS_ENDPOINT_URL` and run `piecework up`.",
    ),
    Code(
        "embedded.environment.install_failed",
        _P,
        "The Python environment of the emulator could not be installed.",
        "Read the last lines of the installer above, check the network, then run "
        "`piecework up` again.",
    ),
    Code(
        "embedded.server.not_healthy",
        ErrorClass.TRANSIENT,
        "The emulator was started but does not answer its health check.",
        "Run `piecework down` and `piecework up`. `piecework doctor` shows its log.",
    ),
    Code(
        "embedded.state.absent",
        _P,
        "No emulator was started from this directory or a parent of it.",
        "Start one with `piecework up`.",
    ),
    Code(
        "embedded.state.unreadable",
        _P,
        "The state file of the emulator has an unexpected content.",
        "Delete the file that the message names, then run `piecework up`.",
    ),
)
