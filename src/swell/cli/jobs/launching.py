"""How `swell run` starts several workers in a pod, where a job keeps its checkpoints, and whether
its script trains with the library.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from swell.api.injection import CHECKPOINTS_VARIABLE
from swell.api.meta import Body
from swell.cli.command_line import USAGE, CommandError

VOLUME = "checkpoints"
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_LAUNCHER = ("-m", "swell.train.launch")
# A volume claim and a folder, as `docker run -v` writes them; a folder alone begins otherwise.
_CLAIM = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?):(/.*)")
# A script that trains with the library imports it, or a part of it.
_IMPORT = re.compile(
    r"^[ \t]*(?:(?:from|import)[ \t]+swell\.train\b"
    r"|from[ \t]+swell[ \t]+import[ \t]+(?:\([^)]*|[^\n#]*)\btrain\b)",
    re.MULTILINE,
)
# No script is as long; a file of data that is called so is not read as a whole.
_SCRIPT_BYTES_MAX = 1 << 20
_WORKERS = frozenset({"gpu", "cpu", "auto"})


def launched(command: Sequence[str], n_workers: str) -> tuple[str, ...]:
    """Return a command that starts so many workers of another one, as `swell launch` does.

    A launcher's own command line gets the flag; a Python script is handed to our launcher by the
    interpreter that would have run it, and any other program is run as it is.
    """
    if n_workers not in _WORKERS and not (n_workers.isdecimal() and int(n_workers) >= 1):
        message = f"--nproc-per-node takes a number from 1 on, gpu, cpu or auto, not {n_workers!r}"
        raise CommandError(message, "write it like --nproc-per-node 4", USAGE)
    flag = ("--nproc-per-node", n_workers)
    program, *rest = command
    name = PurePosixPath(program).name
    if name == "torchrun":
        return (program, *flag, *rest)
    if name == "swell" and rest[:1] == ["launch"]:
        return (program, "launch", *flag, *rest[1:])
    if _PYTHON.fullmatch(name) is None:
        return ("python", *_LAUNCHER, *flag, "--no-python", *command)
    # The interpreter's flags other than -u, which the launcher gives itself, cannot be handed on.
    script = rest[1:] if rest[:1] == ["-u"] else rest
    if not script or (script[0].startswith("-") and script[0] != "-m"):
        hint = "for example: swell run --nproc-per-node 2 -- python train.py"
        raise CommandError("--nproc-per-node needs a Python script or module", hint, USAGE)
    return (program, *_LAUNCHER, *flag, *script)


def add_checkpoints(pod: Body, place: str) -> None:
    """Give a pod's container the folder of checkpoints, and its path in a variable.

    A folder is one of every machine that runs pods of the job: of this one on the embedded
    cluster, elsewhere of a shared file system. `CLAIM:DIR` mounts a PersistentVolumeClaim there.
    """
    claimed = _CLAIM.fullmatch(place)
    folder = claimed[3] if claimed else str(Path(place).absolute())
    source: Body = (
        {"persistentVolumeClaim": {"claimName": claimed[1]}}
        if claimed
        else {"hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
    )
    container = pod["containers"][0]
    pod["volumes"] = [*pod.get("volumes", ()), {"name": VOLUME, **source}]
    mount = {"name": VOLUME, "mountPath": folder}
    container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    # First, so that a variable of that name on the command line outweighs it.
    variable = {"name": CHECKPOINTS_VARIABLE, "value": folder}
    container["env"] = [variable, *container.get("env", ())]


def trains_with_library(command: Sequence[str], folder: Path) -> bool:
    """Whether a Python file that a command names, or a module that it runs, imports `swell.train`.

    Files are looked for in the folder that the command runs in; one that is elsewhere, as in an
    image, says nothing.
    """
    for path in _scripts(command, folder):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if _IMPORT.search(file.read(_SCRIPT_BYTES_MAX).decode(errors="replace")):
                return True
    return False


def _scripts(command: Sequence[str], folder: Path) -> Iterator[Path]:
    for before, word in zip(["", *command], command, strict=False):
        if word.endswith(".py"):
            yield folder / word
        elif before == "-m":
            module = folder.joinpath(*word.split("."))
            yield module.with_name(f"{module.name}.py")
            yield module / "__main__.py"
