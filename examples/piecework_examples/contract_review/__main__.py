"""Review texts right here, in memory: no AWS, no worker, the same pipeline.

python -m piecework_examples.contract_review --corpus contracts
python -m piecework_examples.contract_review --corpus licenses --limit 20
python -m piecework_examples.contract_review mine.md --out out/review --calls 116
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, count, islice
from pathlib import Path
from typing import Final

from aiohttp import web

from piecework import Document, PieceworkError
from piecework.testing import MemoryRun, run_in_memory
from piecework_examples.contract_review.clauses import split
from piecework_examples.contract_review.corpus import licences
from piecework_examples.contract_review.playbook import HERE
from piecework_examples.contract_review.report import Report
from piecework_examples.contract_review.review import pipeline
from piecework_examples.contract_review.services.addin import AddinService
from piecework_examples.contract_review.services.faults import ADDIN_MIX, Faults

CORPORA: Final = ("contracts", "licenses")


def main(arguments: Sequence[str] | None = None) -> int:
    """Review the requested contracts; return the exit code."""
    options = argparse.ArgumentParser(
        prog="python -m piecework_examples.contract_review"
    )
    options.add_argument("file", nargs="*", type=Path, help="texts, .md or .txt")
    options.add_argument("--corpus", choices=CORPORA)
    options.add_argument("--limit", type=int, default=10)
    options.add_argument(
        "--calls", type=int, help="calls of the model for each clause, such as 116"
    )
    options.add_argument("--out", type=Path, default=Path("out/review"))
    given = options.parse_args(arguments)
    if not given.file and not given.corpus:
        options.error("name a file, or a --corpus")
    if given.calls is not None:
        os.environ["REVIEW_CALLS"] = str(given.calls)
    try:
        documents = list(asked_for(given.file, given.corpus, given.limit))
        asyncio.run(review_all(documents, given.out))
    except (PieceworkError, OSError, UnicodeDecodeError) as error:
        step = getattr(error, "next_step", "")
        print(f"error {error} {step}".rstrip(), file=sys.stderr)
        return 2
    return 0


def asked_for(files: list[Path], corpus: str | None, limit: int) -> Iterator[Document]:
    """Yield the documents; whole files first, then the corpus up to the limit."""
    for path in files:
        yield Document(path.name, path.read_text("utf-8-sig"))
    if corpus == "contracts":
        for path in sorted((HERE / "contracts").glob("*.md"))[:limit]:
            yield Document(path.name, path.read_text("utf-8"))
    if corpus == "licenses":
        yield from islice(licences(), limit)


async def review_all(documents: Sequence[Document], out: Path) -> None:
    """Review each document and save its report, with an add-in service beside it."""
    taken = set[str]()
    async with addin_service() as url:
        os.environ["REVIEW_ADDIN_URL"] = url
        for document in documents:
            run = await run_in_memory(pipeline, list(split(document)))
            save(run, out / own_folder(document.name, taken))
            report = Report.model_validate(run.join_value)
            counted = ", ".join(f"{n} {s}" for s, n in report.findings.items() if n)
            print(f"{document.name}: {report.clauses} clauses; {counted or 'nothing'}")
    print(f"reports in {out}")


def own_folder(name: str, taken: set[str]) -> str:
    """Return a folder for a document's report that no other's has taken."""
    stem = Path(name).stem
    numbered = (f"{stem}-{number}" for number in count(2))
    free = next(each for each in chain([stem], numbered) if each not in taken)
    taken.add(free)
    return free


def save(run: MemoryRun, folder: Path) -> None:
    """Save what the join wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in run.artifacts.items():
        (folder / name).write_bytes(content)


@asynccontextmanager
async def addin_service() -> AsyncIterator[str]:
    """Serve the add-in on a free port of this machine; yield its address."""
    app = web.Application()
    app.add_routes(AddinService(Faults(0, 0.0, 0, mix=ADDIN_MIX), 0.0, 1).routes())
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
