"""How both ends of a line prove that they know the job's secret, without telling it.

    caller: MAGIC nonce            ->
           <- MAGIC nonce proof    : answerer
    caller: proof                  ->

A proof is an HMAC over both nonces and the side's name, so that none can be sent back, or used for
another line.
"""

from __future__ import annotations

import hashlib
import hmac

MAGIC = b"SWELLBUS"
NONCE_BYTES = PROOF_BYTES = 32
_CALLER, _ANSWERER = b"caller", b"answerer"


class Handshake:
    """One side of a handshake: bytes in, bytes out."""

    def __init__(self, secret: bytes, nonce: bytes, *, calls: bool) -> None:
        self._secret = secret
        self._own = nonce
        self._calls = calls
        self._other: bytes | None = None
        self.is_done = False

    @property
    def opening(self) -> bytes:
        return MAGIC + self._own if self._calls else b""

    @property
    def _needed(self) -> int:
        if self._other is not None:
            return PROOF_BYTES
        return len(MAGIC) + NONCE_BYTES + (PROOF_BYTES if self._calls else 0)

    def take(self, received: bytearray) -> bytes | None:
        """The answer to the bytes received so far, which are used up; None for a wrong end."""
        if not MAGIC.startswith(bytes(received[: len(MAGIC)])) and self._other is None:
            return None
        if len(received) < self._needed:
            return b""
        taken = bytes(received[: self._needed])
        del received[: self._needed]
        return self._take_proof(taken) if self._other is not None else self._take_nonce(taken)

    def _take_nonce(self, taken: bytes) -> bytes | None:
        self._other = taken[len(MAGIC) :][:NONCE_BYTES]
        if not self._calls:
            return MAGIC + self._own + self._proof(_ANSWERER)
        if not hmac.compare_digest(taken[-PROOF_BYTES:], self._proof(_ANSWERER)):
            return None
        self.is_done = True
        return self._proof(_CALLER)

    def _take_proof(self, taken: bytes) -> bytes | None:
        if not hmac.compare_digest(taken, self._proof(_CALLER)):
            return None
        self.is_done = True
        return b""

    def _proof(self, side: bytes) -> bytes:
        caller, answerer = (self._own, self._other) if self._calls else (self._other, self._own)
        text = side + (caller or b"") + (answerer or b"")
        return hmac.new(self._secret, text, hashlib.sha256).digest()
