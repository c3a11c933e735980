"""Check that the roles grant what the code uses, and nothing else.

A play of every command and path, then a soak, both past a door that lets in as IAM
would by the roles of `infra/roles.yaml`.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from verification.iam.account import Account
from verification.iam.play import play
from verification.iam.played import left_out
from verification.iam.run import run
from verification.iam.soaking import calls, soak
from verification.soak import microburst
from verification.soak.plan import Plan

SEED = 11


def main(arguments: Sequence[str] | None = None) -> int:
    """Play and soak; 0 if what was used is what is granted."""
    parser = argparse.ArgumentParser(prog="verification.iam", description=__doc__)
    parser.add_argument("--chunks", type=int, default=60, help="of the soak; 0: none")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="iam-"))
    account = Account()
    asyncio.run(see(account, folder, asked.chunks))
    for line in account.told():
        sys.stderr.write(f"{line}\n")
    if account.wrong:
        sys.stderr.write(f"logs in {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{account.last_line()}\n")
    return 1 if account.wrong else 0


async def see(account: Account, folder: Path, chunks: int) -> None:
    """Let all be played, and then the soak."""
    say("every command and path, each actor with its own key")
    cast = await run(folder, play)
    door = cast.door
    account.add(door.let_in, door.denied, door.strange, door.decisions)
    account.broken += cast.failed
    account.broken += [f"never played: {name}" for name in left_out(cast.played)]
    if not chunks:
        return
    say(f"a soak of {chunks} chunks behind the same door")
    microburst.ensure()
    plan = Plan(chunks=chunks, kills=3, freezes=1, stops=1, seed=SEED, workers=3)
    place = folder / "soak"
    place.mkdir()
    seen = await soak(plan, place, say)
    let_in, denied = calls(seen["let_in"]), calls(seen["denied"])
    account.add(let_in, denied, seen["strange"], seen["decisions"])
    account.broken += seen["broken"]


def say(line: str) -> None:
    """Tell a person, away from the results."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
