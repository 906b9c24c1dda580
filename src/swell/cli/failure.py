"""How a command ends when it cannot do what was asked: one line, one hint, an exit code."""

from __future__ import annotations


class CommandError(Exception):
    """A refusal for people. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code
