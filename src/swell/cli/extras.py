"""The parts of Swell that need a package which `pip install swell` alone does not bring.

Everything that decides where pods go computes with numpy, which is larger than all the rest
(ADR 152). Commands that talk to a cluster do without it.
"""

from __future__ import annotations

from swell.cli.command_line import CommandError

# The extra that brings a package, and the use that we have for it.
_EXTRAS = {"numpy": ("up", "deciding where pods go")}


def can_schedule() -> bool:
    """Whether the scheduler's decisions can be computed here."""
    from importlib.util import find_spec

    return find_spec("numpy") is not None


def require_scheduler() -> None:
    """Refuse what has to schedule, before anything is started for it."""
    if not can_schedule():
        raise _refusal("numpy")


def missing_extra(error: ModuleNotFoundError) -> CommandError:
    """Return the sentence for a package of an extra; any other missing module is our mistake."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    return _refusal(package)


def _refusal(package: str) -> CommandError:
    extra, use = _EXTRAS[package]
    message = f"{use} needs {package}, which is not installed"
    return CommandError(message, f"install it: pip install 'swell[{extra}]'")
