"""What the image has to be, beyond what hadolint knows: one rule a line of thought."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.infra.image.dockerfile import Image

Rule = Callable[[Image], bool]
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
DIGEST = re.compile(r"(@sha256:[0-9a-f]{64})?")
LABELS = {"title", "description", "licenses", "version", "revision", "base.name"}
PYTHON = {
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER",
    "PYTHONNOUSERSITE",
    "PYTHONSAFEPATH",
    "PYTHONUNBUFFERED",
}


def _runs(image: Image) -> list[str]:
    return [each.text for each in image.all("RUN")]


def _commands(image: Image) -> list[str]:
    return [part.strip() for run in _runs(image) for part in run.split("&&")]


def _seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def _waits(image: Image) -> dict[str, str]:
    checks = image.final.all("HEALTHCHECK")
    return checks[-1].flags if checks else {}


RULES: dict[str, Rule] = {
    "the base is an argument with a digest of its own": lambda i: (
        {s.base for s in i.stages} == {"${BASE}${BASE_DIGEST}"}
    ),
    "the base has a tag that names a release": lambda i: bool(
        re.fullmatch(r"[\w./-]+:\d[\w.-]+", i.head.pairs("ARG").get("BASE", ""))
    ),
    "the digest is none or a real one": lambda i: bool(
        DIGEST.fullmatch(i.head.pairs("ARG").get("BASE_DIGEST", "?"))
    ),
    "it is built in one stage and runs in another": lambda i: (
        [s.name for s in i.stages] == ["build", ""]
    ),
    "nothing comes into it but what was built": lambda i: (
        [c.flags.get("from") for c in i.final.all("COPY")] == ["build"]
    ),
    "what is downloaded has a hash": lambda i: all(
        "--require-hashes" in c for c in _commands(i) if " install " in c and "-r " in c
    ),
    "what is not downloaded cannot be": lambda i: all(
        "--no-index" in c for c in _commands(i) if "install" in c and "*.whl" in c
    ),
    "its own wheel needs nothing from outside": lambda i: all(
        {"--no-deps", "--no-build-isolation"} <= set(c.split())
        for c in _commands(i)
        if " wheel " in c
    ),
    "dependencies are a layer before the code": lambda i: (
        i.text.index("-r requirements/runtime.txt") < i.text.index("COPY piecework")
    ),
    "the whole folder is never copied": lambda i: (
        not any(c.text.split()[0] in {".", "./", "*"} for c in i.all("COPY"))
    ),
    "nothing is fetched or unpacked from outside": lambda i: (
        not i.all("ADD") and not re.search(r"\b(curl|wget|apt-get|git)\b", i.text)
    ),
    "there is no pip in it": lambda i: (
        "venv --without-pip /app" in i.text
        and any("/usr/local/bin/pip*" in r.text for r in i.final.all("RUN"))
        and any("ensurepip" in r.text for r in i.final.all("RUN"))
    ),
    "no program in it changes its user": lambda i: any(
        "-perm /6000" in r.text and "chmod a-s" in r.text for r in i.final.all("RUN")
    ),
    "its code is compiled and root's": lambda i: (
        any("compileall" in c and "unchecked-hash" in c for c in _commands(i))
        and not any("chown" in c.flags for c in i.final.all("COPY"))
    ),
    "the user is a number and not root": lambda i: bool(
        i.final.all("USER")
        and re.fullmatch(r"[1-9]\d+:[1-9]\d+", i.final.all("USER")[-1].text)
    ),
    "after the user nothing is run": lambda i: (
        not any(
            each.word in {"RUN", "COPY"}
            for each in i.final.instructions[
                [e.word for e in (*i.final.instructions, *i.all("FROM"))].index("USER")
                if i.final.all("USER")
                else 0 :
            ]
        )
    ),
    "it is started without a shell": lambda i: (
        [e.listed for e in i.final.all("ENTRYPOINT")] == [["piecework-worker"]]
        and all(c.listed for c in i.final.all("CMD"))
    ),
    "it stops by SIGTERM": lambda i: (
        [s.text for s in i.final.all("STOPSIGNAL")] == ["SIGTERM"]
    ),
    "its health check runs without a shell": lambda i: (
        [h.listed for h in i.final.all("HEALTHCHECK")]
        == [["python", "-m", "piecework_worker.health"]]
    ),
    "a check is over before the next": lambda i: (
        {"interval", "timeout", "start-period", "retries"} <= set(_waits(i))
        and _seconds(_waits(i)["timeout"]) < _seconds(_waits(i)["interval"])
    ),
    "one place is for writing, and the health file is there": lambda i: (
        [v.listed for v in i.final.all("VOLUME")] == [["/tmp"]]  # noqa: S108
        and i.final.pairs("ENV").get("PIECEWORK_HEALTH_FILE", "").startswith("/tmp/")  # noqa: S108
    ),
    "Python writes nothing, buffers nothing and says where it crashed": lambda i: (
        PYTHON <= set(i.final.pairs("ENV"))
    ),
    "it says what it is": lambda i: (
        {f"org.opencontainers.image.{name}" for name in LABELS}
        <= set(i.final.pairs("LABEL"))
    ),
    "no secret is set or asked for": lambda i: (
        not any(
            SECRET.search(name)
            for word in ("ENV", "ARG")
            for each in i.all(word)
            for name in each.pairs
        )
    ),
    "it offers no port": lambda i: not i.all("EXPOSE"),
}
