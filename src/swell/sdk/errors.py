"""The error and the warning of the SDK, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from swell.cli.command_line import CommandError
from swell.cli.extras import missing_extra


class SwellError(Exception):
    """Something cannot be done. The words are those of the command line.

    `hint` says what to do about it, and is part of a traceback; `details` are the mistakes in a
    manifest, each with its place. They come first in the error's text.
    """

    def __init__(self, message: str, hint: str = "", details: Sequence[str] = ()) -> None:
        super().__init__("\n".join([*details, message]))
        self.message = message
        self.hint = hint
        self.details = tuple(details)
        if hint:
            self.add_note(f"  {hint}")


class SwellWarning(UserWarning):
    """A job is valid, and will not do what is meant; for example, it can never start."""


@contextmanager
def as_swell_errors() -> Iterator[None]:
    """Raise errors of the command line's functions as SwellError."""
    try:
        yield
    except CommandError as error:
        raise SwellError(str(error), error.hint, error.details) from error
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        raise SwellError(str(missing), missing.hint) from error
