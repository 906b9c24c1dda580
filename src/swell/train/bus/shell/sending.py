"""Sends the leader's reports to the operator, where a policy forbids it to ask for them."""

from __future__ import annotations

import http.client
import logging
import threading
import urllib.error
import urllib.request
from pathlib import Path

from swell.api.backoff import Backoff
from swell.api.injection import REPORT_PATH

logger = logging.getLogger("swell.train")

# The operator writes no report of a job more often.
PACE_S = 10.0
# After an answer that is none, or a refusal: nobody may lead for a moment, or for long.
_PACE_S_MAX = 60.0
_ANSWER_S = 5.0


class ReportSender:
    """A thread that sends the newest report that was offered, at its own pace."""

    def __init__(self, url: str, token: Path, pace_s: float = PACE_S) -> None:
        self._url = url.rstrip("/") + REPORT_PATH
        self._token = token
        self._pace = Backoff(pace_s, _PACE_S_MAX)
        self._newest: bytes | None = None
        self._is_closed = threading.Event()
        self._offered = threading.Event()
        self._thread: threading.Thread | None = None

    def offer(self, report: bytes) -> None:
        """Have a report sent. It never waits; only the newest one is sent."""
        self._newest = report
        self._offered.set()
        if self._thread is None and not self._is_closed.is_set():
            # Members that never lead need none.
            self._thread = threading.Thread(target=self._run, name="swell-report", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._is_closed.set()
        self._offered.set()

    def join(self, within_s: float) -> None:
        """Wait for the end of the thread, after `close`."""
        if self._thread is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        n_failed = 0
        while self._offered.wait() and not self._is_closed.is_set():
            self._offered.clear()
            problem = self._send(self._newest or b"")
            if problem and not n_failed:
                logger.warning("the operator does not take reports: %s", problem)
            n_failed = n_failed + 1 if problem else 0
            if self._is_closed.wait(self._pace.full_s(n_failed + 1)):
                return

    def _send(self, report: bytes) -> str:
        """Send a report; returns the reason why it was not taken, or the empty text."""
        try:
            # Read every time: the kubelet renews it.
            headers = {"Authorization": f"Bearer {self._token.read_text().strip()}"}
            request = urllib.request.Request(self._url, report, headers, method="POST")  # noqa: S310
            with urllib.request.urlopen(request, timeout=_ANSWER_S):  # noqa: S310
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return f"{error.code} {error.read(200).decode(errors='replace').strip()}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            return str(error) or type(error).__name__
