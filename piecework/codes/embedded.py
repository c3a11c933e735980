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
        "Start afresh with `piecework down` and `piecework up`.",
    ),
    Code(
        "embedded.endpoint.not_loopback",
        _P,
        "This command is for this machine only, and the endpoint is not on it.",
        "Unset `AWS_ENDPOINT_URL` and run `piecework up`.",
    ),
    Code(
        "embedded.environment.install_failed",
        _P,
        "The emulator's own Python environment could not be made.",
        "Read the installer's last lines above, check the network, and run "
        "`piecework up` again.",
    ),
    Code(
        "embedded.server.not_healthy",
        ErrorClass.TRANSIENT,
        "The emulator was started but does not answer its health check.",
        "Run `piecework down` and `piecework up`; `piecework doctor` shows its log.",
    ),
    Code(
        "embedded.state.absent",
        _P,
        "No emulator has been started from this directory or above it.",
        "Start one with `piecework up`.",
    ),
    Code(
        "embedded.state.unreadable",
        _P,
        "The file that remembers the emulator is not what `piecework up` writes.",
        "Delete the file that the message names, then run `piecework up`.",
    ),
)
