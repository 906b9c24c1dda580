"""A real browser: Debian's chromium, driven by its own driver over the WebDriver protocol.

Needs the packages chromium and chromium-driver (apt-get install chromium chromium-driver).
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WITHIN_S = 60.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_PORT = re.compile(rb"started successfully on port (\d+)")
TAB, ENTER = "\ue004", "\ue007"
# The network log of the browser tells which hosts it asked.
_LOGS = {"performance": "ALL", "browser": "ALL"}


class BrowserError(Exception):
    """The driver refused a command."""


class Browser:
    """One window. Waits are for conditions, up to a minute."""

    def __init__(self, session: str) -> None:
        self._session = session

    def command(self, method: str, path: str, body: object | None = None) -> Any:
        return _send(method, f"{self._session}{path}", body)

    def open(self, address: str) -> None:
        self.command("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def wait(self, script: str, *arguments: object) -> Any:
        """Wait until a script returns something that holds."""
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"not so after {WITHIN_S} s: {script}\n{self.text()[:2000]}")

    def wait_text(self, text: str) -> None:
        self.wait("return document.body.innerText.includes(arguments[0])", text)

    def type(self, selector: str, text: str) -> None:
        self.wait("return document.querySelector(arguments[0])", selector)
        found = self.command("POST", "/element", {"using": "css selector", "value": selector})
        self.command("POST", f"/element/{found[_ELEMENT]}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        actions = [
            action
            for key in keys
            for action in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})
        ]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self.command("POST", "/actions", body)

    def resize(self, width: int, height: int = 900) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Choose the colour scheme, light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def devtools(self, name: str, **parameters: object) -> Any:
        body = {"cmd": name, "params": parameters}
        return self.command("POST", "/goog/cdp/execute", body)

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.command("GET", "/screenshot")))

    def requested(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        entries = self.command("POST", "/se/log", {"type": "performance"})
        messages = (json.loads(entry["message"])["message"] for entry in entries)
        return [
            str(one["params"]["request"]["url"])
            for one in messages
            if one["method"] == "Network.requestWillBeSent"
        ]

    def console(self) -> list[str]:
        """What the browser complained of since the last call, such as breaches of the policy."""
        return [str(one["message"]) for one in self.command("POST", "/se/log", {"type": "browser"})]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser without a window, with a profile of its own."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    assert driver, "needs the package chromium-driver"
    assert chromium, "needs the package chromium"
    log = folder / "driver.log"
    with log.open("wb") as out:
        process = subprocess.Popen([driver, "--port=0"], stdout=out, stderr=out)
    try:
        address = f"http://127.0.0.1:{_port(log)}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        arguments += [f"--user-data-dir={folder / 'profile'}", "--disable-dev-shm-usage"]
        arguments += ["--disable-component-update", "--disable-background-networking"]
        wanted = {
            "goog:chromeOptions": {"binary": chromium, "args": arguments},
            "goog:loggingPrefs": _LOGS,
        }
        made = _send("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        session = f"{address}/session/{made['sessionId']}"
        try:
            yield Browser(session)
        finally:
            _send("DELETE", session)
    finally:
        process.terminate()
        process.wait(WITHIN_S)


def _port(log: Path) -> int:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        found = _PORT.search(log.read_bytes())
        if found:
            return int(found[1])
        time.sleep(0.05)
    raise AssertionError(f"the driver did not start: {log.read_text()}")


def _send(method: str, address: str, body: object | None = None) -> Any:
    data = None if body is None and method != "POST" else json.dumps(body or {}).encode()
    request = urllib.request.Request(address, data, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=2 * WITHIN_S) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise BrowserError(error.read().decode()[:500]) from None
