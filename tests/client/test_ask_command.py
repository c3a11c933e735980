"""Guarantee: a question about each row needs no file of code, and is asked once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from piecework_simulation import ask_command
from tests.client.conftest import Run
from tests.unit.orchestrator.cli.conftest import RUNNER

MODELS = """
from pydantic import BaseModel


class Invoice(BaseModel):
    number: str
"""
LINE = ("rows.jsonl", "--model", "openai:gpt-5-mini")
PROMPT = "Read the invoice: {text}"


class Provider(ThreadingHTTPServer):
    """Answers chat completions with the last word of the prompt."""

    daemon_threads = True
    prompts: list[str]
    tiers: set[str]
    refused: set[str]


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        asked = json.loads(self.rfile.read(size))
        text = asked["messages"][-1]["content"]
        self.server.prompts.append(text)
        self.server.tiers.add(asked.get("service_tier", ""))
        word = text.split()[-1]
        status = 400 if word in self.server.refused else 200
        content = json.dumps({"number": word}) if "response_format" in asked else word
        choice = {"index": 0, "finish_reason": "stop"}
        choice |= {"message": {"role": "assistant", "content": content}}
        usage = {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}
        body = json.dumps(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
            | {"choices": [choice], "usage": usage}
            if status == 200
            else {"error": {"message": "refused", "type": "invalid_request_error"}}
        ).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    server = Provider(("127.0.0.1", 0), Handler)
    server.prompts, server.refused, server.tiers = [], set(), set()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def ask(project: Path, run: Run) -> Run:
    """Return the command, in a folder with rows and with a model of answers."""
    del run  # it replaces the signals and the end of the process
    (project / "bills.py").write_text(MODELS, encoding="utf-8")
    rows = [{"text": f"number {n}", "other": n} for n in "abc"]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (project / "rows.jsonl").write_text(lines, encoding="utf-8")
    return lambda *words: RUNNER.invoke(ask_command.app, words)


def values(stdout: str) -> list[object]:
    lines = [json.loads(line) for line in stdout.splitlines()]
    return [each.get("value") for each in sorted(lines, key=lambda one: one["chunk"])]


def test_a_question_about_each_row_has_typed_answers(
    ask: Run, provider: Provider
) -> None:
    limits = ("--requests-per-minute", "6000", "--budget-tokens", "1000000")
    done = ask(*LINE, "--returns", "bills:Invoice", PROMPT, *limits)
    assert done.exit_code == 0, done.stderr
    assert values(done.stdout) == [{"number": n} for n in "abc"]
    assert sorted(provider.prompts) == [f"Read the invoice: number {n}" for n in "abc"]


def test_an_answer_is_paid_for_once_and_another_prompt_asks_again(
    ask: Run, provider: Provider
) -> None:
    provider.refused.add("b")
    first = ask(*LINE, PROMPT)
    assert (first.exit_code, values(first.stdout)) == (5, ["a", None, "c"])
    assert "the run is kept" in first.stderr
    paid = len(provider.prompts)
    again = ask(*LINE, PROMPT)
    assert (values(again.stdout), len(provider.prompts)) == (["a", None, "c"], paid)
    # With another limit the question stays: the stored answers are printed.
    limited = ask(*LINE, PROMPT, "--requests-per-minute", "6000")
    assert (values(limited.stdout), len(provider.prompts)) == (["a", None, "c"], paid)
    provider.refused.clear()
    other = ask(*LINE, "What is {text}")
    assert values(other.stdout) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "words",
    [
        (*LINE, "What is {text}"),
        ("rows.jsonl", "--model", "openai:gpt-5", PROMPT),
        (*LINE, PROMPT, "--returns", "bills:Invoice"),
    ],
)
def test_a_state_file_answers_its_own_question_only(
    ask: Run, provider: Provider, words: tuple[str, ...]
) -> None:
    here = ("--state", "a.state")
    assert values(ask(*LINE, PROMPT, *here).stdout) == ["a", "b", "c"]
    paid = len(provider.prompts)
    refused = ask(*words, *here)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "run.input.changed" in refused.stderr
    assert "another question" in refused.stderr
    assert len(provider.prompts) == paid


def test_the_ejected_program_is_the_one_that_asks(
    ask: Run, run: Run, project: Path, provider: Provider
) -> None:
    words = (*LINE, "--returns", "bills:Invoice", PROMPT, "--eject", "asked.py")
    assert ask(*words).exit_code == 0
    assert provider.prompts == []
    text = (project / "asked.py").read_text("utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) <= 15
    done = run("asked:answers", "rows.jsonl")
    assert values(done.stdout) == [{"number": n} for n in "abc"]
    assert ask(*words).exit_code == 2  # it replaces no file


def test_a_question_may_be_asked_in_the_flex_lane(ask: Run, provider: Provider) -> None:
    done = ask(*LINE, PROMPT, "--lane", "flex")
    assert (values(done.stdout), provider.tiers) == (["a", "b", "c"], {"flex"})
    # This provider names no tier: the full price counts, and the run says so.
    assert "flex was asked for" in done.stderr


def test_a_question_may_be_asked_in_the_batch_lane(ask: Run) -> None:
    ask(*LINE, PROMPT, "--lane", "batch", "--eject", "asked.py")
    assert "lane=Lane.batch()" in Path("asked.py").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gpt-5-mini", PROMPT), "is not a model of a provider"),
        (("--model", "other:m", PROMPT), "is not a model of a provider"),
        (("--model", "openai:m", "Read it."), "names no field"),
        (("--model", "openai:m", "Read {text"), "cannot be filled in"),
        (("--model", "openai:m", "Read {text.real}"), "names 'text.real'"),
        (("--model", "openai:m", "{text}", "--returns", "In voice"), "does not name"),
        (("--model", "openai:m", "{text}", "--lane", "slow"), "'slow' is not a lane"),
        (("--model", "anthropic:m", "{text}", "--lane", "flex"), "anthropic has none"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    ask: Run, words: tuple[str, ...], said: str
) -> None:
    done = ask("rows.jsonl", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
