"""Check the supply chain: the locked dependencies, and secrets in the checkout.

    audit     known vulnerabilities of the locked dependencies (asks the index)
    sbom      a CycloneDX list of them, with their hashes
    secrets   what looks like a secret in the checkout and is not in the baseline
    baseline  write that anew, once a person has looked at what is new

The tools live in an environment of their own, made from a lock with hashes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tools import bin_of

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "requirements" / "runtime.txt"
BASELINE = Path(__file__).parent / "secrets.baseline"
SBOM = ROOT / "out" / "sbom.cdx.json"
#: Hashes of packages, and recordings: long words that are not secrets.
NO_SECRETS = (
    r"(^|/)(requirements/.*\.txt|.*\.baseline|out/.*|\.tools/.*"
    r"|tests/(upgrade|conformance)/.*\.json)$"
)


def main(words: Sequence[str]) -> int:
    """Do what is asked for."""
    doing = {"audit": audit, "sbom": sbom, "secrets": secrets, "baseline": baseline}
    if len(words) != 1 or words[0] not in doing:
        say(__doc__ or "")
        return 2
    return doing[words[0]]()


def audit() -> int:
    """Say which locked dependency has a known vulnerability; return 1 if one has.

    If the index has no advisories or does not answer, the last lines say that the audit
    was skipped. That is not a clean result.
    """
    done = run("pip-audit", "-f", "json", "--progress-spinner", "off", *LOCKED)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        say(f"skipped: offline ({last_line(done.stderr)})")
        say("audited=0 skipped=all vulnerable=unknown")
        return 0
    passed_over = [each["name"] for each in found if "skip_reason" in each]
    bad = [each for each in found if each.get("vulns")]
    for each in bad:
        ids = ", ".join(v["id"] for v in each["vulns"])
        say(f"{each['name']} {each['version']}: {ids}")
    audited = len(found) - len(passed_over)
    if not audited:
        say("skipped: the index has no advisories")
    elif passed_over:
        say(f"passed over: {', '.join(passed_over)}")
    vulnerable = len(bad) if audited else "unknown"
    say(f"audited={audited} skipped={len(passed_over)} vulnerable={vulnerable}")
    return 1 if bad else 0


LOCKED = ("--require-hashes", "--disable-pip", "-s", "pypi", "-r", str(RUNTIME))


def sbom() -> int:
    """Write what the product is made of, with hashes, for those who run it."""
    SBOM.parent.mkdir(exist_ok=True)
    form = ("--of", "JSON", "--output-reproducible", "-o", str(SBOM))
    root = ("--pyproject", str(ROOT / "pyproject.toml"))
    done = run("cyclonedx-py", "requirements", str(RUNTIME), *form, *root)
    if done.returncode:
        say(last_line(done.stderr))
        return done.returncode
    parts = json.loads(SBOM.read_text("utf-8"))["components"]
    hashed = sum(any("hashes" in r for r in p["externalReferences"]) for p in parts)
    say(f"{SBOM.relative_to(ROOT)}: CycloneDX, from {RUNTIME.relative_to(ROOT)}")
    say(f"components={len(parts)} with_hashes={hashed}")
    return int(hashed < len(parts))


def secrets() -> int:
    """Look for what looks like a secret, beside what a person has looked at already."""
    files = checkout()
    known = ("--baseline", str(BASELINE), "--exclude-files", NO_SECRETS)
    done = run("detect-secrets-hook", *known, *files)
    if done.returncode:
        say(done.stdout)
    say(f"files={len(files)} new_secrets={'some' if done.returncode else 0}")
    return done.returncode


def baseline() -> int:
    """Write the strings that look like secrets and were reviewed."""
    done = run("detect-secrets", "scan", "--exclude-files", NO_SECRETS, *checkout())
    if done.returncode == 0:
        found = json.loads(done.stdout)
        BASELINE.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
        say(f"known={sum(map(len, found['results'].values()))}")
    return done.returncode


def checkout() -> list[str]:
    """Return the files of the checkout, those that are not committed yet included."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard")
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


# ── the tools ───────────────────────────────────────────────────────────────


def run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end."""
    program = str(bin_of("security") / tool)
    return subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def git(*words: str) -> str:
    """Ask git."""
    program = shutil.which("git") or "git"
    return subprocess.run(
        [program, *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
