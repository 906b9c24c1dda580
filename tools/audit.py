"""`make audit`: asks whether known vulnerabilities concern what Swell installs.

The answer comes from pip-audit and the service it asks. Where that service cannot be reached, or
does not know the packages, nothing was checked: that is said, and it is not a success.
Exit code 0: none known; 1: some are; 2: no data.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LISTS = Path(__file__).resolve().parent.parent / "requirements"
NO_DATA = 2


def main() -> int:
    # One list at a time: those of other environments pin other versions of the same packages, and
    # pip-audit neither takes two of one nor follows a list into another.
    answers = [_ask(file) for file in sorted(LISTS.glob("*.txt"))]
    exit_code, text = verdict(answers)
    print(text)
    return exit_code


def _ask(file: Path) -> tuple[str, str]:
    """Return what pip-audit writes to its two outputs about the packages of one list."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    command += ["--requirement", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def verdict(answers: Iterable[tuple[str, str]]) -> tuple[int, str]:
    """Return the exit code and the text for a person, from pip-audit's outputs on every list."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for answer, complaint in answers:
        try:
            packages = json.loads(answer)["dependencies"]
        except (json.JSONDecodeError, KeyError, TypeError):
            lines = complaint.strip().splitlines() or ["pip-audit gave no reason"]
            return NO_DATA, f"no data, nothing was checked: {lines[-1]}"
        found |= {(entry["name"], entry.get("version", "")): entry for entry in packages}
    packages = list(found.values())
    unknown = [entry["name"] for entry in packages if "skip_reason" in entry]
    flaws = [
        f"{entry['name']} {entry['version']}: {flaw['id']}"
        f" (mended in {', '.join(flaw['fix_versions']) or 'no release yet'})"
        for entry in packages
        for flaw in entry.get("vulns", ())
    ]
    n_checked = len(packages) - len(unknown)
    lines = [*flaws, f"{n_checked} of {len(packages)} packages checked, {len(flaws)} known flaws"]
    if unknown:
        lines.append(f"no data on {len(unknown)}: {', '.join(unknown)}")
    if flaws:
        return 1, "\n".join(lines)
    return (NO_DATA if unknown else 0), "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
