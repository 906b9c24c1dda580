"""Boards and alert rules in a real Prometheus: loaded, scraped and queried.

Needs the package prometheus (apt-get install prometheus).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import start_http_server

from tools.write_boards import ALERTS, BOARDS, FOLDER, all_metrics

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that scrapes a process with all of our metrics every second, with our rules."""
    program = shutil.which("prometheus")
    assert program, "needs the package prometheus"
    folder = tmp_path_factory.mktemp("prometheus")
    server, thread = start_http_server(0, "127.0.0.1", all_metrics())
    port = _free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ROOT / FOLDER / "rules.yaml")],
        "scrape_configs": [
            {
                "job_name": "swell",
                "static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        process.terminate()
        process.wait(WITHIN_S)
        server.shutdown()
        server.server_close()
        thread.join(WITHIN_S)


def test_rules_are_loaded_and_healthy(prometheus: str) -> None:
    """Every one is evaluated without an error."""

    def evaluated() -> dict[str, str]:
        groups = _get(f"{prometheus}/rules")["groups"]
        assert isinstance(groups, list)
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    wanted = {alert.name: "ok" for alert in ALERTS}
    _until(lambda: evaluated() == wanted)
    assert evaluated() == wanted


def test_every_panel_can_be_asked_and_finds_its_metrics(prometheus: str) -> None:
    """No expression is refused; gauges that are there from the start have values."""
    _until(lambda: bool(_query(prometheus, "swell_leader")))
    stored = json.loads((ROOT / FOLDER / "operator.json").read_text())
    assert stored["panels"]
    for panels in BOARDS.values():
        for panel in panels:
            for expression, _ in panel.queries:
                assert isinstance(_query(prometheus, expression), list), expression
    assert _query(prometheus, "min(swell_scheduler_config_valid)")


def _query(prometheus: str, expression: str) -> list[object]:
    found = _get(f"{prometheus}/query?{urllib.parse.urlencode({'query': expression})}")["result"]
    assert isinstance(found, list)
    return found


def _get(address: str) -> dict[str, object]:
    with urllib.request.urlopen(address, timeout=WITHIN_S) as answer:
        body = json.load(answer)
    assert body["status"] == "success", body
    data = body["data"]
    assert isinstance(data, dict)
    return data


def _until(holds: object) -> None:
    """Wait until a condition holds; Prometheus may not answer at first."""
    assert callable(holds)
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        try:
            if holds():
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.1)
    raise AssertionError("not so within a minute")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
