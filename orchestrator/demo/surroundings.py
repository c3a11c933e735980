"""The environment of the demo's processes: this machine only, no user settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

#: Short leases, so that a newcomer does not wait a minute for the takeover, and few
#: chunks and calls at once, so that there is something to see.
DEMO_SETTINGS = {
    "PIECEWORK_LEASE_S": "3",
    "PIECEWORK_VISIBILITY_S": "5",
    "PIECEWORK_CLOCK_SKEW_S": "0.5",
    "PIECEWORK_RECONCILE_S": "0.5",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_SHUTDOWN_GRACE_S": "5",
    "PIECEWORK_MAX_CHUNKS": "3",
    "PIECEWORK_MAX_CALLS_IN_FLIGHT": "6",
}
#: The SDK wants to sign with something, and is to find nothing of the user's.
NO_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "demo",
    "AWS_SECRET_ACCESS_KEY": "demo",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "*",
}
DROPPED_PREFIXES = ("AWS_", "PIECEWORK_", "REVIEW_")
KEPT_VARIABLES = ("PIECEWORK_CACHE_DIR",)


def demo_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of the demo's own embedded AWS."""
    rest = {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES
        or not (name.startswith(DROPPED_PREFIXES) or name.lower().endswith("_proxy"))
    }
    return {
        **rest,
        **NO_CREDENTIALS,
        **DEMO_SETTINGS,
        "PIECEWORK_STATE_DIR": str(folder),
    }


@contextmanager
def isolated_environ(environment: Mapping[str, str]) -> Iterator[None]:
    """Replace the environment variables of this process within the block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
