"""Serve the AWS server on an inherited socket, until a signal stops it.

python -m bench.aws_server --fd N
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import socket
import time
from random import Random

from bench.aws_server.router import AwsServer
from piecework_simulation.aws.conflicts import IN_TRUE_TIME_S, Conflicts
from piecework_simulation.aws_server.http import Connection


async def serve(listener: socket.socket) -> None:
    """Answer all connections."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    conflicts = Conflicts(time.monotonic, Random(), IN_TRUE_TIME_S)
    aws_server = AwsServer(loop, time.time, conflicts)
    await loop.create_server(lambda: Connection(aws_server.serve), sock=listener)
    # Items and messages stay, and have no circles. A collector that searched them again
    # and again would cost more than the answers.
    gc.disable()
    await stopped.wait()


def main() -> None:
    """Be the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.aws_server")
    parser.add_argument("--fd", type=int, required=True, help="a socket that listens")
    with socket.socket(fileno=parser.parse_args().fd) as listener:
        asyncio.run(serve(listener))


if __name__ == "__main__":
    main()
