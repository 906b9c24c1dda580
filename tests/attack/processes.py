"""Attacks by what the processes of pods do: files, folders, output, children, memory, answers."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from swell.cluster.trees import tree_bytes
from tests.attack.harness import Attack, Target
from tests.attack.objects import pod
from tests.attack.payloads import MERGE_PATCH

PODS = "/api/v1/namespaces/default/pods"
SCRATCH = {"volumes": [{"name": "v", "emptyDir": {}}]}
GONE_S = 20.0


def script(name: str, text: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A pod that runs a text of Python."""
    return pod(name, spec, command=[sys.executable, "-I", "-c", text], **more)


def run(target: Target, body: dict[str, Any], *, until: tuple[str, ...] = ("Running",)) -> None:
    """Create a pod and wait until it is in one of these phases, or has ended."""
    body["spec"] |= {"schedulerName": "swell"}
    body["spec"].setdefault("restartPolicy", "Never")
    name = body["metadata"]["name"]
    answer = target.ask("POST", PODS, body)
    if answer is None or answer.code != 201:
        return
    _wait(target, name, {*until, "Succeeded", "Failed"})


def _wait(target: Target, name: str, phases: set[str], limit_s: float = 15.0) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = target.ask("GET", f"{PODS}/{name}")
        if found is None or found.code != 200:
            return
        if found.json().get("status", {}).get("phase") in phases:
            return
        time.sleep(0.1)


def remove(target: Target, *names: str) -> None:
    """Delete pods, and note those that stay, or whose folders or processes stay."""
    uids = {}
    for name in names:
        found = target.ask("GET", f"{PODS}/{name}")
        if found is not None and found.code == 200:
            uids[name] = found.json()["metadata"]["uid"]
        target.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=1")
    deadline = time.monotonic() + GONE_S
    left = dict(uids)
    while left and time.monotonic() < deadline:
        for name, uid in uids.items():
            answer = target.ask("GET", f"{PODS}/{name}")
            is_gone = answer is not None and answer.code == 404
            if is_gone and not (target.home / "pods" / uid).exists():
                left.pop(name, None)
        time.sleep(0.1)
    target.bad += [f"pod {name} is still there {GONE_S} s after its deletion" for name in left]
    marked = [uid for uid in uids.values() if _processes_of(uid)]
    target.bad += [f"processes of {uid} are left" for uid in marked]


def _processes_of(uid: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if uid.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


_MOUNT = [{"name": "v", "mountPath": "/scratch"}]
_DEEP = """
import os
os.chdir(PLACE)
for n in range(4000): os.mkdir('d'); os.chdir('d')
"""
_WIDE = """
import os
os.chdir('/scratch')
for n in range(20000): open(f'f{n}\\n', 'w').close()
os.mkdir('x'); os.mkfifo('x/p'); os.symlink('/etc', 'x/e'); os.chmod('x', 0)
os.mkdir('y' * 200 + chr(10)); os.mkfifo(b'\\xff')
"""


def _deep_folders(target: Target) -> None:
    """Folders in a volume that are nested by thousands, and thousands beside each other."""
    for name, text in {
        "deep": _DEEP.replace("PLACE", "'/scratch'"),
        "wide": _WIDE,
        "work": _DEEP.replace("PLACE", "'.'"),
    }.items():
        run(target, script(name, text, SCRATCH, volumeMounts=_MOUNT), until=("Succeeded",))
    remove(target, "deep", "wide", "work")


_MESSAGES = {
    "pipe": "os.mkfifo(p)",
    "link": "os.symlink('/etc/shadow', p)",
    "folder": "os.mkdir(p)",
    "zero": "os.symlink('/dev/zero', p)",
    "sparse": "open(p, 'w').truncate(1 << 36)",
    "long": "open(p, 'wb').write(b'\\xff' * 50_000_000)",
    "nul": "open(p, 'wb').write(b'\\0' * 4096)",
}


def _messages(target: Target) -> None:
    """Termination messages that are pipes, links, devices, folders, and sparse gigabytes."""
    begin = "import contextlib, os\np = '/dev/termination-log'\n"
    begin += "with contextlib.suppress(OSError): os.unlink(p)\n"
    for name, text in _MESSAGES.items():
        run(target, script(f"m-{name}", begin + text), until=("Succeeded",))
        found = target.ask("GET", f"{PODS}/m-{name}")
        if found is not None and b"root:" in found.body:
            target.bad.append("a message is another file")
    remove(target, *(f"m-{name}" for name in _MESSAGES))


_SERVER = """
import socket, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', PORT)); s.listen(200)
def one(c):
    try:
        if HOW == 'close': c.close()
        elif HOW == 'silent': c.recv(1); threading.Event().wait()
        elif HOW == 'endless':
            while True: c.sendall(b'x' * 65536)
        elif HOW == 'headers':
            c.sendall(b'HTTP/1.1 200 OK\\r\\n')
            while True: c.sendall(b'a: b\\r\\n' * 9000)
        elif HOW == 'nonsense': c.sendall(b'\\xff\\n'); c.close()
        elif HOW == 'number': c.sendall(b'HTTP/1.1 ' + b'9' * 5000 + b'\\n'); c.close()
    except OSError: pass
while True:
    c, _ = s.accept()
    threading.Thread(target=one, args=(c,), daemon=True).start()
"""
_ANSWERS = ("close", "silent", "endless", "headers", "nonsense", "number")


def _probed(target: Target) -> None:
    """Servers that answer probes with nothing, without end, or with nonsense."""
    for n, how in enumerate(_ANSWERS):
        port = 18_080 + n
        get = {"httpGet": {"path": "/", "port": port, "host": "127.0.0.1"}, "periodSeconds": 1}
        liveness = {**get, "initialDelaySeconds": 1}
        text = f"HOW={how!r}\nPORT={port}\n{_SERVER}"
        run(target, script(f"p-{how}", text, readinessProbe=get, livenessProbe=liveness))
    for name, command in {"loud": ["yes"], "forks": ["sh", "-c", "setsid sleep 50 &"]}.items():
        probe = {"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 1}
        run(target, pod(f"p-{name}", command=["sleep", "60"], readinessProbe=probe))
    time.sleep(7)
    target.take_memory()
    for how in _ANSWERS:
        found = target.ask("GET", f"{PODS}/p-{how}")
        is_running = found is not None and b'"phase":"Running"' in found.body
        if is_running != (how == "headers"):  # its status line is a success
            target.bad.append(f"p-{how}: running: {is_running}")
    remove(target, *(f"p-{how}" for how in _ANSWERS), "p-loud", "p-forks")


def _floods(target: Target) -> None:
    """Output as fast as it goes, from several pods, with followers."""
    names = [f"flood{n}" for n in range(6)]
    with contextlib.ExitStack() as stack:
        for n, name in enumerate(names):
            run(target, pod(name, command=["yes", "x" * (90 if n % 2 else 1)]))
            for _ in range(5):
                stack.enter_context(target.raw.open_stream(f"{PODS}/{name}/log?follow=true"))
        time.sleep(4)
        target.take_memory()
        size = tree_bytes(target.home / "logs")
        if size > 1 << 30:
            target.bad.append(f"{size >> 20} MiB of logs")
    remove(target, *names)


_NEWLINES = """
import sys, time
while True: sys.stdout.write('\\n' * 20000); sys.stdout.flush(); time.sleep(.02)
"""


def _followers(target: Target) -> None:
    """A hundred followers of one log of newlines."""
    run(target, script("followed", _NEWLINES))
    with contextlib.ExitStack() as stack:
        for n in range(100):
            query = "timestamps=true" if n % 2 else "tailLines=1000000000"
            path = f"{PODS}/followed/log?follow=true&{query}"
            stack.enter_context(target.raw.open_stream(path))
        time.sleep(4)
        target.take_memory()
    most = 2**63 - 1
    for query in (
        f"tailLines={most}", "sinceTime=0001-01-01T00:00:00Z", f"sinceSeconds={most}",
        "sinceTime=9999-12-31T23:59:59.999999999Z", f"limitBytes={most}", "tailLines=0",
        "sinceTime=0000-01-01T00:00:00%2B24:00", f"tailLines={most + 1}", "tailLines=-0",
    ):  # fmt: skip
        target.ask("GET", f"{PODS}/followed/log?{query}")
    remove(target, "followed")


_DAEMONS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
for n in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
"""
_PROCESSES = {
    "daemons": _DAEMONS + "time.sleep(600)",
    "closed": "import os, time\nos.closerange(0, 1024)\nos.environ.clear()\ntime.sleep(600)",
    "named": "import ctypes, time\nctypes.CDLL(None).prctl(15, b') R 1 1 (', 0, 0, 0)\n"
    "time.sleep(600)",
    "stopped": "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)",
    # It forks in its children, and they in theirs, until the limit of processes.
    "bomb": "import os, time\nfor n in range(12):\n  try: os.fork()\n  except OSError: pass\n"
    "time.sleep(600)",
}


def _daemons(target: Target) -> None:
    """Processes that leave their session, fork twice, ignore signals, and fork without end."""
    for name, text in _PROCESSES.items():
        run(target, script(name, text))
    run(target, script("parted", _DAEMONS), until=("Succeeded",))
    time.sleep(3)
    target.take_memory()
    remove(target, *_PROCESSES, "parted")


_HOGS = """
import os, time
for n in range(30):
    if os.fork() == 0:
        os.setsid(); a = bytearray(1 << 24); time.sleep(30); os._exit(0)
time.sleep(30)
"""


def _hogs(target: Target) -> None:
    """Memory beyond the limit, in one process and in many."""
    limits = {"limits": {"memory": "64Mi", "cpu": "1"}}
    for name, text in {
        "hog": "a = []\nwhile True: a.append(bytearray(1 << 22))",
        "hogs": _HOGS,
    }.items():
        run(target, script(name, text, resources=limits), until=("Failed",))
        found = target.ask("GET", f"{PODS}/{name}")
        if found is not None and b"OOMKilled" not in found.body:
            target.bad.append(f"{name} was not ended for its memory")
    remove(target, "hog", "hogs")


def _restarting(target: Target) -> None:
    """Containers that end at once, again and again, with hooks that never do."""
    names = [f"again{n}" for n in range(30)]
    never = {"exec": {"command": ["sleep", "1000"]}}
    hooks = {"preStop": never, "postStart": {"exec": {"command": ["false"]}}}
    for n, name in enumerate(names):
        more = {"lifecycle": hooks} if n % 2 else {}
        body = pod(name, {"restartPolicy": "Always"}, command=["false"], **more)
        run(target, body, until=("Pending", "Running"))
    time.sleep(4)
    remove(target, *names)


def _annotations(target: Target) -> None:
    """A hundred downward files of long annotations, which change."""
    field = {"fieldRef": {"fieldPath": "metadata.annotations"}}
    items = [{"path": f"f{n}", **field} for n in range(100)]
    spec = {"volumes": [{"name": "d", "downwardAPI": {"items": items}}]}
    mounts = [{"name": "d", "mountPath": "/d"}]
    body = pod("noted", spec, command=["sleep", "30"], volumeMounts=mounts)
    body["metadata"]["annotations"] = {f"n{n}": "x\n" * 1_000 for n in range(100)}
    run(target, body)
    for n in range(10):
        change = {"metadata": {"annotations": {"n0": str(n) * 9_000}}}
        target.ask("PATCH", f"{PODS}/noted", change, {**MERGE_PATCH})
    remove(target, "noted")


ATTACKS: dict[str, Attack] = {
    "folders nested by thousands": _deep_folders,
    "messages that are no files": _messages,
    "probed servers that misbehave": _probed,
    "output without end": _floods,
    "a hundred followers": _followers,
    "daemons and bombs": _daemons,
    "memory beyond the limit": _hogs,
    "containers that end at once": _restarting,
    "annotations in volumes": _annotations,
}
