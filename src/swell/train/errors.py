"""The errors of the training library.

TrainError
├── GroupBrokenError      a member died or left: the step is redone by the others
├── UnsavableStateError   a value that can neither travel nor be saved
├── CheckpointError       a file that is no complete checkpoint
└── MissingFrameworkError a feature of a framework that is not installed
"""

from __future__ import annotations


class TrainError(Exception):
    """Something that the user of the library can do something about."""


class GroupBrokenError(TrainError):
    """The group broke up during a collective. The engine catches it and forms another group."""


class UnsavableStateError(TrainError):
    """A value of the state that is neither plain data nor a tensor."""


class CheckpointError(TrainError):
    """A file that is no complete checkpoint of this program."""


class MissingFrameworkError(TrainError):
    """A feature was used whose framework is not installed."""

    def __init__(self, feature: str, package: str, cause: ImportError) -> None:
        super().__init__(
            f"{feature} needs {package}, which cannot be imported ({cause}): pip install {package}"
        )
