"""AWS clients for the emulator that ignore the user's AWS configuration."""

from __future__ import annotations

from typing import Any

from piecework.endpoint import Emulator

ACCESS_KEY = "test"  # no secret: the emulator accepts any key


def make_client(service: str, emulator: Emulator) -> Any:
    """Return a client for one service of the emulator.

    It ignores the user's profile, configuration file, keys and proxies. A broken
    profile must not stop the embedded AWS, and a valid one must not be used.
    """
    import boto3
    import botocore.session
    from botocore.config import Config

    unset = (None, None, None, None)
    core = botocore.session.Session({"profile": unset, "config_file": unset})
    session = boto3.Session(
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=ACCESS_KEY,
        region_name=emulator.region,
        botocore_session=core,
    )
    config = Config(
        connect_timeout=2,
        read_timeout=30,
        proxies={},
        retries={"total_max_attempts": 2},
    )
    return session.client(service, endpoint_url=emulator.endpoint, config=config)
