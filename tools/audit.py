"""`make audit`: asks whether known vulnerabilities concern what Swell installs.

The answer comes from pip-audit and the service it asks. Where that service cannot be reached, or
does not know the packages, nothing was checked: that is said, and it is not a success.
Exit code 0: none known; 1: some are; 2: no data.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LISTS = Path(__file__).resolve().parent.parent / "requirements"
NO_DATA = 2


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    command += ["--requirement", str(LISTS / "examples.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    exit_code, text = verdict(done.stdout, done.stderr)
    print(text)
    return exit_code


def verdict(answer: str, complaint: str) -> tuple[int, str]:
    """The exit code and the text for a person, from what pip-audit wrote to its two outputs."""
    try:
        packages = json.loads(answer)["dependencies"]
    except (json.JSONDecodeError, KeyError, TypeError):
        lines = complaint.strip().splitlines() or ["pip-audit gave no reason"]
        return NO_DATA, f"no data, nothing was checked: {lines[-1]}"
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
