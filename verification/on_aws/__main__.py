"""Try Piecework in a real AWS account, within a budget, and remove everything.

    make on-aws PROFILE=trial BUDGET_USD=5
    make on-aws ARGS="--emulator --chunks 200"

It deploys into an environment of its own name, puts the probes of conformance to AWS,
reviews a contract with a killed worker and a redrive, submits 20,000 chunks with eight
writers, cancels them, and compares `jobs cost` with what AWS counted. A report in
Markdown and one in JSON say what happened. The exit code is 0 if every step succeeded
and nothing is left.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import boto3

from piecework_orchestrator.cost.prices import load_prices
from tests.own_emulator import own_emulator
from verification.on_aws.account import Account
from verification.on_aws.estimate import Estimate, estimate
from verification.on_aws.report import Report
from verification.on_aws.steps import Run

CHUNKS: Final = 20_000
#: The key of the emulator, and the region in which it pretends to be.
KEY, REGION = "embedded", "us-east-1"


def main() -> int:
    """Be the command line."""
    args = parsed()
    if refusal := refused(args):
        sys.stderr.write(f"on-aws: {refusal}\n")
        return 2
    name = args.remove or f"try{token_hex(3)}"
    with (
        tempfile.TemporaryDirectory(prefix="piecework-on-aws-") as made,
        opened(args, name) as account,
    ):
        run = Run(account, Path(made), args.chunks, args.image, args.emulator)
        region = str(account.session.region_name)
        with_service = bool(args.image)
        prices = load_prices(args.prices)
        expected = estimate(prices, region, args.chunks, with_service=with_service)
        report = Report(account.number(), region, name, expected, args.budget)
        return carried_out(run, report, args)


def carried_out(run: Run, report: Report, args: argparse.Namespace) -> int:
    """Run the steps and the removal; write the report; return the exit code."""
    say(report.head())
    if args.budget < report.expected.total:
        say("nothing was created: the estimate is above the budget")
        return 2
    try:
        if not args.remove:
            steps(run, report, report.expected)
    except KeyboardInterrupt:
        report.stopped = "it was interrupted"
    finally:
        # A second Ctrl-C must not leave half of it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        say("removing everything; this is not interrupted")
        began = time.monotonic()
        try:
            report.left = run.remove()
        except Exception as error:  # noqa: BLE001 -- the report must say so
            report.left = [f"the removal failed: {type(error).__name__}: {error}"]
        report.removed_s = time.monotonic() - began
        report.write(Path(args.report))
        say(report.last_line())
        if report.left:
            say(
                f"next: make on-aws PROFILE=… BUDGET_USD=… ARGS='--remove {report.env}'"
            )
    return 0 if report.succeeded else 1


def steps(run: Run, report: Report, expected: Estimate) -> None:
    """Run the steps until one fails, or the next one could exceed the budget."""
    for name, act in run.steps():
        so_far = run.spent() if run.jobs else 0.0
        if so_far + expected.steps.get(name, 0.0) > report.budget:
            report.stopped = f"the budget: {so_far:.4f} USD are spent before {name}"
            return
        say(f"{name} …")
        began = time.monotonic()
        try:
            found: dict[str, Any] = act()
        except Exception as error:  # noqa: BLE001 -- a failed step is a finding
            report.add(name, time.monotonic() - began, {}, f"{error}")
            say(f"{name} failed: {error}")
            return
        report.add(name, time.monotonic() - began, found, "")
    report.is_complete = True


@contextmanager
def opened(args: argparse.Namespace, name: str) -> Iterator[Account]:
    """Yield the account: that of the profile, or an emulator of its own."""
    kept = {n: os.environ[n] for n in ("PATH", "HOME", "LANG") if n in os.environ}
    ours = {**kept, "PIECEWORK_ENV": name, "PIECEWORK_APP": "piecework"}
    if not args.emulator:
        session = boto3.Session(
            profile_name=args.profile, region_name=args.region or None
        )
        where = {"AWS_PROFILE": args.profile, "AWS_REGION": str(session.region_name)}
        account = Account(name, {**ours, **where}, session)
        yield account
        account.close()
        return
    with own_emulator() as running:
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": KEY}
        where = {"AWS_ENDPOINT_URL": running.endpoint, "AWS_DEFAULT_REGION": REGION}
        session = boto3.Session(KEY, KEY, region_name=REGION)
        account = Account(name, {**ours, **keys, **where}, session, running.endpoint)
        yield account
        account.close()


def refused(args: argparse.Namespace) -> str:
    """Return why nothing is started; empty: it is."""
    if args.emulator:
        return ""
    if not args.profile:
        return "it needs the profile of the account: PROFILE=NAME of ~/.aws/config"
    if args.budget <= 0:
        return "it needs a budget: BUDGET_USD=5; it stops before it spends more"
    try:
        session = boto3.Session(profile_name=args.profile)
    except Exception as error:  # noqa: BLE001 -- the SDK's text names the profile
        return f"the profile cannot be used: {error}"
    if not (args.region or session.region_name):
        return f"profile {args.profile} has no region: add ARGS='--region us-east-1'"
    return ""


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(prog="python -m verification.on_aws")
    parser.add_argument("--profile", default="", help="the profile of the account")
    parser.add_argument("--budget", type=float, default=0.0, help="in USD")
    parser.add_argument("--region", default="", help="default: the profile's")
    parser.add_argument("--image", default="", help="deploy a service of this image")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="of the submit")
    parser.add_argument("--prices", type=Path, help="prices of another region")
    parser.add_argument("--report", default="out/on-aws", help="without its ending")
    parser.add_argument("--emulator", action="store_true", help="no account at all")
    parser.add_argument("--remove", default="", help="only remove this environment")
    args = parser.parse_args()
    if args.emulator and not args.budget:
        args.budget = 5.0
    return args


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def interrupt(*_: object) -> None:
    """Let SIGTERM end the steps as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
