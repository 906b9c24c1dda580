"""The page in a real browser, for people with different rights: nobody, a viewer, an editor.

And hostile texts in every field of real objects that a user controls, on their way through the API
server, the page's server and the browser.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from swell.up.page import PagePlace, read_place
from tests.e2e.page.browser import ENTER, Browser, browser
from tests.e2e.up.machine import Machine
from tests.unit.history.hostile import HOSTILE

pytestmark = pytest.mark.long
SECRET_TEXT = "c3dlbGwtc2VjcmV0LXRleHQ="
ELASTIC = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit, namespace: %s}
spec:
  replicaSpecs:
    trainer:
      replicas: 1
      minReplicas: 1
      maxReplicas: 3
      edlPolicy: Manual
      template:
        spec:
          containers:
          - name: aitj-trainer
            image: local
            command: [sh, -c, 'while true; do sleep 1; done']
            resources: {requests: {cpu: 100m}}
"""


@dataclass(frozen=True)
class Town:
    """A cluster with a job in each of two namespaces, its page, and tokens of two people."""

    machine: Machine
    place: PagePlace
    view: Browser
    tokens: dict[str, str]

    def enter(self, token: str, *namespaces: str) -> None:
        """Log in as somebody; whoever was logged in before is logged out."""
        self.view.open(f"{self.place.address}#/overview")
        self.view.wait_text("Swell")
        self.view.run(
            "return fetch('/api/logout', {method: 'POST', headers: {'X-Swell-Page': '1'}})"
            ".then(() => true)"
        )
        self.view.command("POST", "/refresh")
        self.view.wait_text("Log in")
        self.view.type("#namespaces", " ".join(namespaces))
        self.view.type("#token", token + ENTER)

    def go(self, view: str, text: str) -> None:
        self.view.open(f"{self.place.address}#/{view}")
        self.view.wait_text(text)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("people")
    machine = Machine(folder)
    machine.start()
    try:
        for name in ("red", "blue"):
            machine.swell("create", "namespace", name)
            manifest = folder / f"{name}.yaml"
            manifest.write_text(ELASTIC % name)
            machine.swell("apply", "-f", str(manifest))
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "hidden-secret", "namespace": "red"},
            "data": {"key": SECRET_TEXT},
        }
        manifest = folder / "secret.yaml"
        manifest.write_text(yaml.safe_dump(secret))
        machine.swell("apply", "-f", str(manifest))
        tokens = {}
        for name, role in (("viewer", "view"), ("editor", "edit")):
            made = machine.swell("user", "create", name, "--role", role, "-n", "red")
            tokens[name] = yaml.safe_load(made.stdout)["users"][0]["user"]["token"]
        place = read_place(machine.home)
        assert place is not None
        with browser(folder) as view:
            view.resize(1100)
            yield Town(machine, place, view, tokens)
    finally:
        machine.swell("down")


def test_nobody_without_a_token_sees_anything(town: Town) -> None:
    """Whatever is asked for, there is a login and no word of the cluster."""
    for view in ("overview", "jobs", "job/aitrainingjobs/red/fit", "nodes", "whatif", "history"):
        town.view.open("about:blank")
        town.go(view, "Log in")
        text = town.view.text()
        assert "fit" not in text
        assert "red" not in text.split()
    town.view.type("#token", "not-a-token" + ENTER)
    town.view.wait_text("does not accept this token")


def test_a_viewer_sees_its_namespace_no_secrets_and_changes_nothing(town: Town) -> None:
    """The refusal is in words; neither token nor secret is in the page, its addresses or a log."""
    token = town.tokens["viewer"]
    town.enter(token, "red", "blue")
    town.view.wait_text("What waits, and why")
    town.go("jobs", "red/fit")
    assert "blue/fit" not in town.view.text()
    town.go("job/aitrainingjobs/blue/fit", "there is no such job")
    town.go("job/aitrainingjobs/red/fit", "Timeline")
    town.view.wait("return document.querySelector('#actions button')")
    town.view.run("document.querySelector('#actions button').click()")
    town.view.wait("return document.querySelector('dialog[open] #yes') !== null")
    town.view.run("document.getElementById('yes').click()")
    town.view.wait_text("forbidden")
    source = str(town.view.run("return document.documentElement.outerHTML"))
    rows = str(town.view.run("return fetch('/api/state').then((answer) => answer.text())"))
    for text in (source, rows):
        assert SECRET_TEXT not in text
        assert "hidden-secret" not in text
        assert token not in text
    asked = town.view.requested()
    assert [one for one in asked if token in one] == []
    assert token not in (town.machine.home / "up.log").read_text()
    assert town.view.run("return document.cookie + JSON.stringify(localStorage)") == "{}"


def test_an_editor_scales_after_a_question(town: Town) -> None:
    """In its own namespace, by the number beside the button."""
    town.enter(town.tokens["editor"], "red")
    town.view.wait_text("What waits, and why")
    town.go("job/aitrainingjobs/red/fit", "Timeline")
    town.view.wait("return document.querySelector('#actions input[type=number]')")
    town.view.run(
        "document.querySelector('#actions input').value = 2;"
        "[...document.querySelectorAll('#actions button')]"
        ".find((one) => one.textContent === 'scale').click();"
        "document.getElementById('yes').click()"
    )
    town.view.wait(
        "return [...document.querySelectorAll('#actions input[type=number]')]"
        ".some((one) => one.getAttribute('value') === '2')"
    )
    found = town.machine.swell("get", "aitj", "fit", "-n", "red", "-o", "json").stdout
    assert json.loads(found)["spec"]["replicaSpecs"]["trainer"]["replicas"] == 2


def test_whoever_may_closes_a_queue_and_asks_what_if(town: Town) -> None:
    """Both on the screen: the queue's new state, and when a pasted job would start."""
    town.machine.swell("queue", "create", "night")
    town.enter(town.place.code)
    town.view.wait_text("What waits, and why")
    town.go("queues", "night")
    press = (
        "const found = document.querySelector('button[data-queue=night]');"
        "if (!found || found.textContent !== arguments[0]) return false;"
        "found.click(); document.getElementById('yes').click(); return true;"
    )
    town.view.wait(press, "close")
    town.view.wait(press, "open")
    town.go("whatif", "nothing is changed")
    manifest = json.dumps(yaml.safe_load(ELASTIC % "red"))
    ask = (
        "document.getElementById('manifest').value = arguments[0];"
        "document.querySelector('form.whatif button').click(); return true;"
    )
    town.view.run(ask, manifest.replace('"name": "fit"', '"name": "new"'))
    town.view.wait("return document.getElementById('answers').innerText.includes('now')")
    town.view.run(ask, manifest)
    town.view.wait_text("there is a job red/fit already")
    town.view.run(ask, manifest.replace("100m", "5000").replace('"fit"', '"new"'))
    town.view.wait("return document.getElementById('answers').innerText.includes('never')")


def test_hostile_texts_in_real_objects_run_nothing(town: Town, tmp_path: Path) -> None:
    """Through every field that takes any text: annotations, arguments, messages, variables."""
    assert len(HOSTILE) >= 30
    body = yaml.safe_load(ELASTIC % "red")
    for number, text in enumerate(one.replace("\x00", "") for one in HOSTILE):
        job = json.loads(json.dumps(body))
        job["metadata"] |= {"name": f"bad-{number}", "annotations": {"note": text}}
        role = job["spec"]["replicaSpecs"]["trainer"]
        container = role["template"]["spec"]["containers"][0]
        container["command"] = ["sh", "-c", 'echo "$TEXT"; echo "$TEXT" >&2; exit 3']
        container["env"] = [{"name": "TEXT", "value": text}]
        role["template"]["metadata"] = {"annotations": {"note": text}}
        (tmp_path / f"{number}.json").write_text(json.dumps(job))
    town.machine.swell("apply", "-f", str(tmp_path))
    town.enter(town.place.code)
    town.view.wait_text("What waits, and why")
    town.view.console()
    for number in range(len(HOSTILE)):
        town.go(f"job/aitrainingjobs/red/bad-{number}", "exit 3")
        town.view.run(
            "explainParts && main().append(...explainParts({summary: arguments[0], notes:"
            " [arguments[0]], podTroubles: [arguments[0]], classes: [], victims: [arguments[0]],"
            " advice: [{text: arguments[0], command: arguments[0]}]}), outlooks([{variant:"
            " arguments[0], starts: arguments[0], nodes: {[arguments[0]]: 1}, makesRoom:"
            " [arguments[0]], size: arguments[0], why: arguments[0]}]))",
            HOSTILE[number],
        )
    town.go("history", "red/bad-1")
    assert town.view.run("return window.hit === undefined && window.pwned === undefined")
    assert [one for one in town.view.console() if "Content Security Policy" in one] == []
    inside = "main script, main img, main iframe, main object, main embed, main base, main link"
    assert town.view.run("return document.querySelectorAll(arguments[0]).length", inside) == 0
