"""The command `swell launch`, which runs a script in place of torchrun and reads its flags."""

from __future__ import annotations

import os

from swell.cli.command_line import USAGE, CommandError
from swell.train.bus import BusStoppedError
from swell.train.launch.arguments import UsageError


def launch(arguments: list[str]) -> int:
    """Run a training script on every member of a job, and again when the members change."""
    from swell.train.launch import program

    try:
        return program.launch(arguments, os.environ)
    except UsageError as error:
        raise CommandError(str(error), "see: swell launch --help", USAGE) from error
    except BusStoppedError as error:
        raise CommandError(str(error)) from error
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
