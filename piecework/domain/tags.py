"""The tags of a job: what its submitter says of it, such as `team=legal`.

They are on the item of the job, which is billed by its size at each change of the job.
So they are few and short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from piecework.errors import UsageError

#: Tags of a job, and the characters of a name and of a value. All are below 1 KB.
MAX_TAGS: Final = 10
MAX_NAME, MAX_VALUE = 32, 64
INVALID_CODE: Final = "job.tag.invalid"


def parse_tags(given: Iterable[str]) -> dict[str, str]:
    """Return tags that words such as `team=legal` express.

    Raises:
        UsageError: `job.tag.invalid`: a word without a `=`, a name given twice with two
            values, or as `checked_tags`.
    """
    found: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            raise UsageError(f"{word!r} is not a tag.", code=INVALID_CODE)
        if found.get(name, value) != value:
            message = f"The tag {name} has two values: {found[name]!r} and {value!r}."
            raise UsageError(message, code=INVALID_CODE)
        found[name] = value
    return checked_tags(found)


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags in the order of their names.

    Raises:
        UsageError: `job.tag.invalid`: too many, or one that is empty, too long, or has
            other characters than a line of text.
    """
    if len(tags) > MAX_TAGS:
        message = f"A job has at most {MAX_TAGS} tags, not {len(tags)}."
        raise UsageError(message, code=INVALID_CODE)
    for name, value in tags.items():
        if (wrong := fault_of(name, value)) is not None:
            raise UsageError(f"The tag {name!r} {wrong}.", code=INVALID_CODE)
    return dict(sorted(tags.items()))


def fault_of(name: Any, value: Any) -> str | None:
    """Return what is wrong with a tag, in words; None: nothing."""
    if not (isinstance(name, str) and isinstance(value, str)):
        return "has a name or a value that is not a text"
    if not (0 < len(name) <= MAX_NAME and 0 < len(value) <= MAX_VALUE):
        limits = f"1 to {MAX_NAME} characters, and a value of 1 to {MAX_VALUE}"
        return f"needs a name of {limits}"
    if "=" in name or "," in name + value:
        return "has a comma, or a `=` in its name"
    if not (name + value).isprintable() or name + value != (name + value).strip():
        return "has a line break, or a space at an end"
    return None


def read_tags(found: Any) -> dict[str, str]:
    """Decode the tags of a row; what is not a text is left out."""
    if not isinstance(found, Mapping):
        return {}
    known = {n: v for n, v in found.items() if isinstance(v, str)}
    return {name: known[name] for name in sorted(known)}


def has_tags(tags: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether all wanted tags are among those of a job."""
    return wanted.items() <= tags.items()


def tags_text(tags: Mapping[str, str]) -> str:
    """Return tags as a person writes them; empty: there are none."""
    return ", ".join(f"{name}={value}" for name, value in tags.items())
