"""The page in a real browser, on a cluster of `swell up`: every view, live, safe and by keyboard.

With SWELL_PICTURES=1 the pictures in docs are made anew.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.up.page import PagePlace, read_place
from tests.e2e.page.browser import ENTER, TAB, Browser, browser
from tests.e2e.up.machine import Machine
from tests.unit.history.hostile import HOSTILE

pytestmark = pytest.mark.long
PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
ELASTIC = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: grows}
spec:
  replicaSpecs:
    trainer:
      replicas: 2
      minReplicas: 1
      maxReplicas: 4
      edlPolicy: Manual
      restartPolicy: Always
      restartScope: Pod
      template:
        spec:
          containers:
          - name: aitj-trainer
            image: local
            command: [sh, -c, 'while true; do echo "step of $HOSTNAME"; sleep 1; done']
            resources: {requests: {cpu: 500m}}
"""


@dataclass(frozen=True)
class Scene:
    """A cluster with jobs, its page, and a browser that is logged in there."""

    machine: Machine
    place: PagePlace
    view: Browser

    def go(self, view: str, text: str) -> None:
        self.view.open(f"{self.place.address}#/{view}")
        self.view.wait_text(text)

    def ask_what_if(self, job: str) -> None:
        self.view.run(
            "document.getElementById('picked').value = arguments[0];"
            "document.getElementById('if-replicas').value = 2;"
            "document.querySelector('form.whatif button').click()",
            job,
        )
        self.view.wait_text("who makes room")

    def picture(self, name: str, folder: Path) -> None:
        wanted = os.environ.get("SWELL_PICTURES") == "1"
        self.view.picture((PICTURES if wanted else folder) / f"page-{name}.png")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("page")
    machine = Machine(folder)
    machine.start()
    try:
        manifest = folder / "grows.yaml"
        manifest.write_text(ELASTIC)
        machine.swell("apply", "-f", str(manifest))
        machine.swell("run", "--name", "done", "--", "python", "-c", "print('well')")
        bad = "import sys; print(sys.argv[1]); raise SystemExit(3)"
        worst = "\n".join(HOSTILE).replace("\x00", "")
        machine.swell("run", "--name", "bad", "--", "python", "-c", bad, worst, expect=1)
        machine.swell("label", "node", "here-0", "topology.kubernetes.io/zone=desk")
        machine.swell("queue", "create", "research", "--weight", "3")
        machine.swell("run", "--name", "large", "--detach", "--cpu", "900", "--", "true")
        place = read_place(machine.home)
        assert place is not None
        with browser(folder) as view:
            view.resize(1100)
            view.open(place.address)
            view.wait_text("Log in")
            view.type("#token", "a wrong one" + ENTER)
            view.wait_text("that is no token")
            view.type("#token", place.code + ENTER)
            view.wait_text("What waits, and why")
            yield Scene(machine, place, view)
    finally:
        machine.swell("down")
    assert machine.processes() == []


def test_every_view_has_its_data(scene: Scene, tmp_path: Path) -> None:
    """And is drawn in two colour schemes, on a wide window and on a narrow one."""
    views = {
        "overview": ("overview", "default/large"),
        "jobs": ("jobs", "default/grows"),
        "job": ("job/aitrainingjobs/default/grows", "step of"),
        "queues": ("queues", "research"),
        "nodes": ("nodes", "desk"),
        "whatif": ("whatif", "nothing is changed"),
        "history": ("history", "default/done"),
        "ended": ("job/aitrainingjobs/default/bad", "exit 3"),
    }
    for name, (view, text) in views.items():
        scene.go(view, text)
        if name == "whatif":
            scene.ask_what_if("default/large")
        for scheme in ("light", "dark"):
            scene.view.prefer(scheme)
            scene.picture(f"{name}-{scheme}", tmp_path)
        shade = "return getComputedStyle(document.body).backgroundColor"
        scene.view.prefer("light")
        light = scene.view.run(shade)
        scene.view.prefer("dark")
        assert scene.view.run(shade) != light
        scene.view.prefer("light")
        scene.view.resize(400)
        wide = scene.view.run("return document.documentElement.scrollWidth")
        assert wide <= 400, f"{name} is {wide} wide"
        scene.picture(f"{name}-phone", tmp_path)
        scene.view.resize(1100)


def test_every_address_has_a_view_and_a_title(scene: Scene) -> None:
    """Also one that was cut off, one that no view has, and names that every object has."""
    for broken in ("%", "nothing", "constructor", "__proto__", "job", "job/%E0%A4%A"):
        scene.view.open("about:blank")
        scene.go(broken, "What waits, and why")
        assert scene.view.run("return document.title") == "Overview · Swell"
    scene.view.open("about:blank")
    scene.go("job/aitrainingjobs/default/grows", "Timeline")
    assert scene.view.run("return document.title") == "grows · Swell"
    scene.go("whatif", "nothing is changed")
    assert scene.view.run("return document.title") == "What if · Swell"


def test_a_change_is_on_the_screen_by_itself(scene: Scene) -> None:
    """Without a reload; the median is printed, and stays far below a poll's."""
    scene.go("job/aitrainingjobs/default/grows", "Timeline")
    delays = []
    for turn, size in enumerate((3, 2, 4, 2, 3)):
        scene.machine.swell("scale", "grows", f"trainer={size}")
        began = time.monotonic()
        scene.view.wait(
            "return [...document.querySelectorAll('input[type=number]')]"
            ".some((one) => one.getAttribute('value') === arguments[0])",
            str(size),
        )
        delays.append(time.monotonic() - began)
        assert turn < 5
    sys.stdout.write(f"\non the screen after {statistics.median(delays):.2f} s (median)\n")


def test_ten_thousand_jobs_are_filtered_and_scrolled(scene: Scene) -> None:
    """Only rows in sight are in the document; the times are printed."""
    scene.go("jobs", "default/grows")
    took = scene.view.run(
        """
        for (let at = 0; at < 10000; at += 1) {
          state.aitrainingjobs.set(`many/job-${at}`, { kind: "aitrainingjobs", namespace: "many",
            name: `job-${at}`, phase: at % 7 ? "Running" : "Pending", ready: "1/1",
            queue: `q${at % 9}`, restarts: at % 3, reason: "", message: "", roles: {},
            isOver: false });
        }
        redraw();
        const began = performance.now();
        filter = "pending q3"; redraw();
        const filtered = performance.now() - began;
        const n = document.getElementById("shown").textContent;
        filter = ""; redraw();
        const list = document.getElementById("list");
        const then = performance.now();
        list.scrollTop = 5000 * 28;
        list.getBoundingClientRect();
        redraw();
        return [filtered, performance.now() - then, n, document.querySelectorAll(".row").length];
        """
    )
    sys.stdout.write(f"\nfilter {took[0]:.0f} ms, scroll {took[1]:.0f} ms\n")

    assert took[2].split()[0] == str(sum(1 for at in range(10000) if at % 7 == 0 and at % 9 == 3))
    assert took[3] < 200
    scene.view.wait_text("many/job-5")
    scene.view.run(
        "for (const key of [...state.aitrainingjobs.keys()])"
        " if (key.startsWith('many/')) state.aitrainingjobs.delete(key); redraw();"
    )


def test_hostile_texts_run_nothing(scene: Scene) -> None:
    """In logs, messages and every field of a row: they are shown, and nothing else happens."""
    scene.view.run("window.alert = () => { window.hit = true; }")
    scene.go("job/aitrainingjobs/default/bad", "exit 3")
    for bad in HOSTILE:
        scene.view.run(
            """
            const bad = arguments[0];
            const row = { kind: "aitrainingjobs", namespace: bad, name: bad, phase: bad, ready: bad,
              queue: bad, restarts: bad, reason: bad, message: bad, isOver: false,
              roles: { [bad]: { size: 1, min: 1, max: 2, scalable: true } } };
            state.aitrainingjobs.set(`${bad}/${bad}`, row);
            state.queues.set(`/${bad}`, { name: bad, parent: bad, weight: bad, state: bad,
              pending: 0, running: 0, capability: { [bad]: bad }, guarantee: {}, deserved: {},
              allocated: {} });
            state.nodes.set(`/${bad}`, { name: bad, isCordoned: true, taints: [bad], faults: [bad],
              allocatable: { cpu: bad }, labels: { a: bad }, used: null,
              marks: [{ job: bad, reason: bad, time: bad, until: "2999-01-01T00:00:00Z" }],
              has: { pods: 1, cpuMilli: 1, memoryBytes: 1, gpus: 1 } });
            for (const draw of [overview, jobs, queues, nodes]) draw();
            whatif([bad]);
            notice(bad);
            state.aitrainingjobs.delete(`${bad}/${bad}`);
            state.queues.delete(`/${bad}`);
            state.nodes.delete(`/${bad}`);
            """,
            bad,
        )
    found = scene.view.run(
        "return [window.hit === true, document.querySelectorAll('main script, main img,"
        " main iframe, main object, main embed, main base, main link, main meta,"
        " main form:not(.whatif)').length]"
    )

    assert found == [False, 0]
    assert [line for line in scene.view.console() if "Content Security Policy" in line] == []


def test_the_page_works_by_keyboard_alone(scene: Scene) -> None:
    """Tab reaches every link and button; Enter acts, after a question."""
    scene.go("overview", "What waits")
    seen: list[str] = []
    for _ in range(12):
        scene.view.press(TAB)
        seen.append(str(scene.view.run("return document.activeElement.textContent")))
    assert {"Jobs", "Queues", "Nodes", "What if", "History"} <= set(seen)
    scene.go("job/aitrainingjobs/default/large", "stop")
    scene.view.wait("return document.querySelector('#actions button')")
    scene.view.run("document.querySelector('#actions button').focus()")
    scene.view.press(ENTER)
    scene.view.wait("return document.querySelector('dialog[open]')")
    scene.view.press(ENTER)
    scene.view.wait_text("Failed")


def test_no_request_leaves_the_origin_and_no_token_is_in_sight(scene: Scene) -> None:
    """Neither in an address, nor in the document, nor in the log of the cluster."""
    scene.go("history", "default/done")
    asked = [one for one in scene.view.requested() if one.startswith(("http", "ws"))]
    hosts = {urlsplit(one).netloc for one in asked}
    source = str(scene.view.run("return document.documentElement.outerHTML"))
    log = (scene.machine.home / "up.log").read_text()

    assert hosts == {urlsplit(scene.place.address).netloc}
    assert [one for one in asked if scene.place.code in one] == []
    assert scene.place.code not in source
    assert scene.place.code not in log
    assert scene.view.run("return document.cookie") == ""


def test_a_dashboard_is_served_by_the_callers_credentials(scene: Scene) -> None:
    """A process of its own, for any cluster; it prints its address, and ends by Ctrl-C."""
    process = scene.machine.begin("dashboard", "--no-browser", "--port", "0")
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        code = process.stderr.readline().split()[-1]
        scene.view.open(address)
        scene.view.wait_text("Log in")
        scene.view.type("#token", code + ENTER)
        scene.view.wait_text("What waits, and why")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def _token(kubeconfig: Path) -> str:
    token = read_kubeconfig([kubeconfig]).user.token
    assert token
    return token


def test_a_dashboard_for_others_takes_tokens_alone(scene: Scene) -> None:
    """There is no code to it, and an address that is none is refused."""
    scene.machine.swell("dashboard", "--browser", "--serve", "nowhere", expect=2)
    process = scene.machine.begin("dashboard", "--serve", "127.0.0.1:0")
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        scene.view.open(process.stdout.readline().strip())
        assert "tokens" in process.stderr.readline()
        token = _token(scene.machine.home / "kubeconfig")
        scene.view.wait_text("Log in")
        scene.view.type("#token", scene.place.code + ENTER)
        scene.view.wait_text("does not accept this token")
        scene.view.type("#token", token + ENTER)
        scene.view.wait_text("What waits, and why")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
