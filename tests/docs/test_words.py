"""The words of the project: no word that the glossary bans."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache

from piecework.settings import Settings
from tests.docs.pages import FENCE, ROOT, SPAN

GLOSSARY = ROOT / "docs/glossary.md"

TOP = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "Makefile"),
    *("pyproject.toml", "mkdocs.yml", ".ci/run", ".github/workflows/ci.yml"),
    *("AGENTS.md", "CODE_OF_CONDUCT.md", ".github/workflows/release.yml"),
)
#: Folders of the product: names and prose are checked.
PRODUCT = (
    *("piecework", "workers", "orchestrator", "simulation", "examples", "infra"),
    *("localstack", "docs", "bench"),
)
#: Folders in which only names, docstrings and comments are checked: a test may quote
#: any word.
TESTS = ("tests", "verification")
READ = re.compile(r"\.(py|md|ya?ml|toml|sh|in|html|js|css|j2|dot)$|(Docker|Make)file$")
#: They explain the banned words, or quote contracts and other systems.
EXEMPT = (
    "docs/glossary.md",
    "docs/error-codes.md",  # generated; its source is checked
    "docs/reference/command-line.md",
    "docs/reference/settings.md",
    "docs/README.md",
    "examples/piecework_examples/contract_review/contracts/",
    "examples/piecework_examples/contract_review/specialists.yaml",
    "tests/docs/test_words.py",
)

COLUMNS = 3
ANY = r"\w+"
#: Jinja has `is none`, as Python has `is None`.
JINJA = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Between two words of a phrase: a space, or a line break with its comment or quotes.
GAP = r"\s*[\"']?\s+(?:\#:?\s+|f?[\"'])?"
START = r"(?:^|(?<=[.:;!?\"#]\s)|(?<=\"))"


@cache
def texts(folders: Sequence[str]) -> dict[str, str]:
    """Return the files of the folders by their names, those at the top included."""
    paths = [ROOT / name for name in TOP]
    for folder in folders:
        found = sorted((ROOT / folder).rglob("*"))
        paths += [path for path in found if READ.search(path.name)]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {
        name: path.read_text("utf-8")
        for name, path in names.items()
        if path.is_file() and not name.startswith(EXEMPT)
    }


def rows_of(section: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a table of the glossary, and what to write in their place."""
    body = GLOSSARY.read_text("utf-8").partition(f"## {section}\n")[2]
    yield from re.findall(r"^\| `([^`]+)` \| (.+) \|$", body, re.MULTILINE)


def pattern(phrase: str) -> str:
    """Return the expression of a banned phrase; a capital means: starts a sentence."""
    if phrase == "Of …,":
        return START + r"Of [^.,;:|\n]{2,60},(?!\d)"
    words = [ANY if word == "…" else re.escape(word) for word in phrase.split()]
    body = GAP.join(words)
    if phrase in {"is none", "none is"}:
        return rf"\b(?<!there ){body}\b"  # Python has `is None`
    if phrase in {"is no …", "are no …"}:
        body = f"(?<!there ){body.removesuffix(ANY)}(?!longer|more|less){ANY}"
    return START + body + r"\b" if phrase[0].isupper() else rf"\b(?i:{body})\b"


def places(text: str, found: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield each find with the number of its line."""
    for match in found.finditer(text):
        yield text.count("\n", 0, match.end()) + 1, " ".join(match[0].split())


def without_code(name: str, text: str) -> str:
    """Blank the code of a page, and the statements of a test; keep the lines."""
    if name.endswith((".html", ".j2")):
        return JINJA.sub(lambda code: code[0].replace("is none", ""), text)
    if name.startswith(TESTS) and name.endswith(".py"):
        return without_statements(text)
    if not name.endswith(".md"):
        return text
    text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    return SPAN.sub("``", text)


def without_statements(text: str) -> str:
    """Blank all of a module but its docstrings and comments."""
    lines, begins = [""] * (text.count("\n") + 1), True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (begins and token.type == tokenize.STRING):
            for row, line in enumerate(token.string.split("\n"), token.start[0] - 1):
                lines[row] += line
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            begins = token.type in {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE}
    return "\n".join(lines)


def banned_words(files: dict[str, str]) -> list[str]:
    """Return each banned word of the prose: its place, and what to write."""
    rows = list(rows_of("Words that are not used"))
    first = "".join({letter for row in rows for letter in row[0][0].lower()})
    found = "|".join(pattern(row[0]) for row in rows)
    # What no phrase begins with is passed over at once.
    anyone = re.compile(rf"(?<!\w)(?=(?i:[{first}]))(?:{found})", re.MULTILINE)
    each = [(re.compile(pattern(b), re.MULTILINE), new) for b, new in rows]
    return [
        f"{name}:{line}: {word!r}: {next(n for p, n in each if p.search(word))}"
        for name, text in files.items()
        if anyone.search(text)
        for line, word in places(without_code(name, text), anyone)
    ]


def names_of_the_glossary() -> Iterator[tuple[str, str]]:
    """Yield each term with each name that its column *seen as* has."""
    terms = GLOSSARY.read_text("utf-8").partition("## Words that are not used")[0]
    for line in terms.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == COLUMNS:
            for span in SPAN.findall(cells[2]):
                yield from ((cells[0], name) for name in WORD.findall(span))


def words_of_code(folders: Sequence[str]) -> set[str]:
    """Return the words of the files that are not pages, and the names of settings."""
    code = [text for name, text in texts(folders).items() if not name.endswith(".md")]
    names = {word for text in code for word in WORD.findall(text)}
    return names | {f"PIECEWORK_{each.name.upper()}" for each in fields(Settings)}


def test_every_name_in_the_glossary_is_in_the_code() -> None:
    names = words_of_code(PRODUCT)

    assert [] == [row for row in names_of_the_glossary() if row[1] not in names]


def test_each_term_of_the_glossary_has_one_row() -> None:
    terms = list(dict.fromkeys(term for term, _ in names_of_the_glossary()))
    lines = GLOSSARY.read_text("utf-8").splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines]

    assert len(terms) >= 60
    assert [] == [term for term in terms if rows.count(term) != 1]


def test_no_banned_word_is_used() -> None:
    assert [] == banned_words(texts((*PRODUCT, *TESTS)))
