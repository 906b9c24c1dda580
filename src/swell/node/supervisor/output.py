"""Writes a container's output to disk, in files of bounded size."""

from __future__ import annotations

import os
import time

from .protocol import open_private

# As a kubelet does by default: containerLogMaxSize and containerLogMaxFiles.
LOG_BYTES_MAX = 10 << 20
LOG_FILES_MAX = 5
INDEX, DRAFT = ".times", ".new"
# See `Log`: the index of a short log is never too large, and times are right to this part of a
# second.
INDEX_BYTES_MIN, MERGED_S = 64 << 10, 0.01


class Log:
    """The output, with an index of the times at which its pieces came.

    An index entry is 16 bytes: the offset in the file and the time in microseconds. While the
    index is larger than the log, output that comes within MERGED_S of an entry gets none of its
    own: a process that writes single letters must not fill the disk with their times. Output that
    a full disk does not take is lost, and the process goes on.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file, self._index = _opened(path)
        self._size = os.fstat(self._file).st_size
        self._index_size, self._indexed_at = os.fstat(self._index).st_size, 0.0

    def write(self, data: bytes) -> None:
        now = time.time()
        try:
            if self._size + len(data) > LOG_BYTES_MAX and self._size:
                self._rotate()
            if self._index_size <= INDEX_BYTES_MIN + self._size or self._is_apart(now):
                stamp = int(now * 1e6).to_bytes(8, "little")
                self._index_size += os.write(self._index, self._size.to_bytes(8, "little") + stamp)
                self._indexed_at = now
            while data:
                n_written = os.write(self._file, data)
                self._size += n_written
                data = data[n_written:]
        except OSError:
            return

    def _is_apart(self, now: float) -> bool:
        """Whether the last index entry is too old for output that comes now, or the clock is."""
        return not 0 <= now - self._indexed_at < MERGED_S

    def _rotate(self) -> None:
        """Begin a new file.

        It is made before the old ones are renamed, so that a full disk leaves them as they are.
        """
        fresh = _opened(self._path + DRAFT)
        for suffix in ("", INDEX):
            for number in range(LOG_FILES_MAX - 1, 0, -1):
                older = f"{self._path}.{number}{suffix}"
                newer = f"{self._path}.{number - 1}{suffix}" if number > 1 else self._path + suffix
                if os.path.exists(newer):
                    os.replace(newer, older)
            os.replace(self._path + DRAFT + suffix, self._path + suffix)
        for descriptor in (self._file, self._index):
            os.close(descriptor)
        (self._file, self._index), self._size, self._index_size = fresh, 0, 0


def _opened(path: str) -> tuple[int, int]:
    """Opens a log and its index for appending. Only their owner can read them."""
    file = open_private(path, os.O_WRONLY | os.O_APPEND)
    try:
        return file, open_private(path + INDEX, os.O_WRONLY | os.O_APPEND)
    except OSError:
        os.close(file)
        raise
