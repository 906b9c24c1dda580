"""The output of workers: into files, to the console with a prefix, or both, as torchrun does it.

The streams of a worker are a number: 1 for stdout, 2 for stderr, 3 for both. A worker whose stream
is redirected or teed writes into a file of its own; `Tail` shows teed files line by line.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TextIO

# The same for every worker, or by local rank.
Streams = int | Mapping[int, int]
NO_STREAM = 0
ALL_STREAMS = 3
_STDOUT = 1
_STDERR = 2
# A line without an end is shown in pieces of this size.
_LINE_BYTES_MAX = 1 << 16


def parse_streams(text: str) -> Streams | None:
    """Parse `3` or `0:1,1:2`; None if it is neither."""
    if re.fullmatch(r"[0-3]", text):
        return int(text)
    if not re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", text):
        return None
    pairs = (part.split(":") for part in text.split(","))
    return {int(rank): int(streams) for rank, streams in pairs}


def streams_of(streams: Streams, local_rank: int) -> int:
    """The streams of one worker; of one that is not named, none."""
    return streams if isinstance(streams, int) else streams.get(local_rank, NO_STREAM)


@dataclass(frozen=True, slots=True)
class Destination:
    """The files that a worker's streams go to; None for the launcher's own stream."""

    stdout: str | None = None
    stderr: str | None = None


@dataclass(slots=True)
class _Followed:
    """A file that is shown on the console, and how far it has been."""

    path: Path
    prefix: bytes
    console: TextIO
    position: int = 0
    rest: bytes = b""


@dataclass(slots=True)
class Outputs:
    """Makes the destinations of a group of workers, and shows the files that are teed."""

    log_dir: str | None
    run_id: str
    role: str
    redirects: Streams
    tee: Streams
    shown_ranks: frozenset[int] | None = None
    prefix_template: str = ""
    _folder: Path | None = None
    _followed: list[_Followed] = field(default_factory=list)

    def destinations(self, ranks: Mapping[int, int], attempt: int) -> dict[int, Destination]:
        """The destination of each worker's streams. `ranks` is the rank by local rank."""
        self.show(to_the_end=True)
        self._followed = []
        return {
            local_rank: Destination(
                self._path(local_rank, rank, attempt, _STDOUT),
                self._path(local_rank, rank, attempt, _STDERR),
            )
            for local_rank, rank in ranks.items()
        }

    def _path(self, local_rank: int, rank: int, attempt: int, stream: int) -> str | None:
        is_teed = bool(streams_of(self.tee, local_rank) & stream)
        is_redirected = bool(streams_of(self.redirects, local_rank) & stream)
        is_shown = self.shown_ranks is None or local_rank in self.shown_ranks
        if not (is_teed or is_redirected):
            # Output that is not to be shown and is kept nowhere.
            return None if is_shown else "/dev/null"
        name = "stdout.log" if stream == _STDOUT else "stderr.log"
        path = self._run_folder() / f"attempt_{attempt}" / str(local_rank) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        if is_teed and is_shown:
            console = sys.stdout if stream == _STDOUT else sys.stderr
            self._followed.append(_Followed(path, self._prefix(local_rank, rank), console))
        return str(path)

    def _run_folder(self) -> Path:
        """A folder of this run's own, since a log folder may be used by many."""
        if self._folder is None:
            if self.log_dir:
                Path(self.log_dir).mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]", "_", self.run_id)
            self._folder = Path(tempfile.mkdtemp(prefix=f"{name}_", dir=self.log_dir))
        return self._folder

    def _prefix(self, local_rank: int, rank: int) -> bytes:
        if not self.prefix_template:
            return f"[{self.role}{local_rank}]:".encode()
        values = {"role_name": self.role, "local_rank": str(local_rank), "rank": str(rank)}
        return Template(self.prefix_template).safe_substitute(values).encode()

    def show(self, *, to_the_end: bool = False) -> None:
        """Show the lines that have come since; the last one even without an end if asked to."""
        for followed in self._followed:
            _show(followed, to_the_end=to_the_end)


def _show(followed: _Followed, *, to_the_end: bool) -> None:
    with followed.path.open("rb") as file:
        file.seek(followed.position)
        new = file.read()
    if not new and not (to_the_end and followed.rest):
        return
    followed.position += len(new)
    *lines, followed.rest = (followed.rest + new).split(b"\n")
    if followed.rest and (to_the_end or len(followed.rest) > _LINE_BYTES_MAX):
        lines.append(followed.rest)
        followed.rest = b""
    text = b"".join(followed.prefix + line + b"\n" for line in lines)
    followed.console.write(text.decode(errors="replace"))
    followed.console.flush()
