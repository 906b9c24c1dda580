"""Children that a training program forks, as workers for its data, share nothing of the bus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.train.bus.cluster import PORT, ROOT, CountingCluster

# One member, alone in its group, that forks a child and sends it SIGTERM, and then itself.
_PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
from swell.train.bus import open_group
from swell.train.bus.plan import NOTHING
from swell.train.place import Place

members, address, port = sys.argv[1:]
place = Place("job", "trainer", 0, 1, Path(members), address, int(port), b"open sesame")
group = open_group(place, minimum=1, meeting_port=1, on_abort=lambda _: None)
group.join(NOTHING, trained=False)

def sockets(pid):
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return {one for one in found if one.startswith("socket:")}

def comes(wanted, within_s=20.0):
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up:
        if wanted():
            return True
        time.sleep(0.01)
    return False

child = os.fork()
if not child:
    time.sleep(60)
    os._exit(0)
shares_none = comes(lambda: not sockets(child))
os.kill(child, signal.SIGTERM)
ended_by = comes(lambda: os.waitpid(child, os.WNOHANG)[0] == child)
time.sleep(0.1)  # a byte for the bus would have come by now
child_took_us_along = group.is_leaving
os.kill(os.getpid(), signal.SIGTERM)
print(json.dumps({
    "own sockets": len(sockets(os.getpid())),
    "child shares none": shares_none,
    "child ended": ended_by,
    "asked by the child's signal": child_took_us_along,
    "asked by its own": comes(lambda: group.is_leaving),
}), flush=True)
os._exit(0)
"""


def test_a_forked_child_has_no_line_and_ends_by_its_own_signal(tmp_path: Path) -> None:
    """Its SIGTERM ends it, as if there were no bus, and is no word to its parent."""
    cluster = CountingCluster(tmp_path)
    cluster.resize(1)
    arguments = [str(cluster.members), cluster.address(0), str(PORT)]
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, *arguments]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)

    told = json.loads(output.stdout)
    assert told.pop("own sockets") >= 3
    assert told == {
        "child shares none": True,
        "child ended": True,
        "asked by the child's signal": False,
        "asked by its own": True,
    }


def test_a_forked_child_of_a_process_alone_ends_by_its_signal() -> None:
    """So pools of processes can be ended in programs that run without Swell, too."""
    program = (
        "import os, signal, time; from swell.train.fixed import FixedGroup\n"
        "group = FixedGroup(0, 1)\n"
        "ready, done = os.pipe()\n"
        "child = os.fork()\n"
        "if not child: os.write(done, b'1'); time.sleep(60); os._exit(0)\n"
        "os.read(ready, 1)  # a signal before that is lost, as Python forks\n"
        "os.kill(child, signal.SIGTERM)\n"
        "print(os.waitpid(child, 0)[1], group.is_leaving)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=50)

    assert output.stdout.split() == [b"15", b"False"]
