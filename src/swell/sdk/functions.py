"""The command that runs a Python function in a job: the function travels in its arguments.

It is pickled by value with cloudpickle, together with what it refers to, so that functions of a
notebook and of a script work. The job needs the same version of Python, and cloudpickle.
"""

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from swell.sdk.errors import SwellError

_PROGRAM = (
    "import base64, sys, cloudpickle;"
    "f, a, k = cloudpickle.loads(base64.b64decode(sys.argv[1]));"
    "f(*a, **k)"
)
# What objects raise that cannot be pickled: pickle's own error, and those of their own methods.
_NOT_PICKLED = (
    pickle.PicklingError,
    AttributeError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
# Linux passes no longer single argument than 128 KiB, and base64 makes four characters of three
# bytes. (base85 is shorter, and has "$(", which Kubernetes would expand.)
_BYTES_MAX = 95 << 10


def function_command(
    function: Callable[..., object],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    interpreter: str,
) -> tuple[str, ...]:
    """Return the command; SwellError if the function cannot be pickled, or is too large."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError as error:
        hint = "install it: pip install cloudpickle"
        raise SwellError("a function can be submitted only with cloudpickle", hint) from error
    name = getattr(function, "__name__", "the function")
    with _by_value(cloudpickle):
        try:
            pickled = cloudpickle.dumps((function, tuple(args), dict(kwargs)))
        except _NOT_PICKLED as error:
            raise SwellError(f"{name} cannot be pickled: {error}") from error
    if len(pickled) > _BYTES_MAX:
        message = f"{name} is {len(pickled):,} bytes when pickled; {_BYTES_MAX:,} is the limit"
        raise SwellError(message, "let it read its data from a file")
    return (interpreter, "-c", _PROGRAM, base64.b64encode(pickled).decode())


@contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    """Have the user's own modules pickled by value; those that are installed a job has, too."""
    own = [module for module in list(sys.modules.values()) if _is_users_own(module)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _is_users_own(module: ModuleType) -> bool:
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    # `__main__` is pickled by value anyway, and a job that runs this needs no copy of Swell.
    if file is None or name == "__main__" or name.partition(".")[0] == "swell":
        return False
    path = Path(file).resolve()
    installed = (Path(sys.prefix), Path(sys.base_prefix))
    return not any(path.is_relative_to(folder.resolve()) for folder in installed)
