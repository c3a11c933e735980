"""The Dockerfile as the tests read it: its stages, and their instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "infra" / "Dockerfile"
FLAG = re.compile(r"--([a-z-]+)=(\S+)\s*")
PAIR = re.compile(r'([\w.]+)=("[^"]*"|\S*)')


@dataclass(frozen=True)
class Instruction:
    """One instruction: `word --flag=value text`."""

    word: str
    flags: dict[str, str]
    text: str

    @property
    def listed(self) -> list[str] | None:
        """Its text in exec form; None: it is for a shell."""
        text = self.text
        if self.word == "HEALTHCHECK":
            text = text.removeprefix("CMD").strip()
        try:
            found: Any = json.loads(text)
        except ValueError:
            return None
        return found if isinstance(found, list) else None

    @property
    def pairs(self) -> dict[str, str]:
        """What it sets, of ENV, LABEL and ARG."""
        found = PAIR.findall(self.text)
        if self.word == "ARG" and not found:
            return {self.text: ""}
        return {name: value.strip('"') for name, value in found}


@dataclass
class Stage:
    """What follows a FROM; the first has what stands before every FROM."""

    base: str = ""
    name: str = ""
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, word: str) -> list[Instruction]:
        """Return its instructions of a kind."""
        return [each for each in self.instructions if each.word == word]

    def pairs(self, word: str) -> dict[str, str]:
        """Return all that its instructions of a kind set."""
        return {k: v for each in self.all(word) for k, v in each.pairs.items()}


@dataclass
class Image:
    """A Dockerfile."""

    text: str
    head: Stage = field(default_factory=Stage)
    stages: list[Stage] = field(default_factory=list)

    @property
    def build(self) -> Stage:
        """The stage that is thrown away."""
        return self.stages[0]

    @property
    def final(self) -> Stage:
        """The stage that is the image."""
        return self.stages[-1]

    @property
    def instructions(self) -> list[Instruction]:
        """All instructions, from the top."""
        return [i for s in (self.head, *self.stages) for i in s.instructions]

    def all(self, word: str) -> list[Instruction]:
        """Return all instructions of a kind."""
        return [each for each in self.instructions if each.word == word]


def parse(text: str) -> Image:
    """Read a Dockerfile."""
    image = Image(text)
    bare = "\n".join(li for li in text.splitlines() if not li.lstrip().startswith("#"))
    for line in bare.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        found = instruction(line.strip())
        if found.word == "FROM":
            base, _, name = found.text.partition(" AS ")
            image.stages.append(Stage(base.strip(), name.strip()))
        else:
            (image.stages or [image.head])[-1].instructions.append(found)
    return image


def instruction(line: str) -> Instruction:
    """Read one instruction."""
    word, _, rest = line.partition(" ")
    flags, rest = {}, rest.strip()
    while (found := FLAG.match(rest)) is not None:
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    return Instruction(word.upper(), flags, re.sub(r"\s+", " ", rest))


def image() -> Image:
    """Return the project's own."""
    return parse(DOCKERFILE.read_text("utf-8"))
