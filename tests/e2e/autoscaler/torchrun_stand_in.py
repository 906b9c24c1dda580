"""Plays torchrun where there is no PyTorch: pods meet where the PET_ variables say, and count.

It takes the options and variables that the real one takes, and makes sure that they make sense. It
trains nothing, and shows nothing of how the real one restarts trainers.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import socket
import sys
import time
from pathlib import Path

N_EACH = 64


def main() -> None:
    parser = argparse.ArgumentParser(prog="torchrun")
    for option in ("--nproc_per_node", "--max_restarts", "--monitor_interval"):
        parser.add_argument(option, type=float, required=True)
    parser.add_argument("script", type=Path)
    chosen = parser.parse_args()
    ast.parse(chosen.script.read_text())
    least, most = map(int, os.environ["PET_NNODES"].split(":"))
    host, port = os.environ["PET_RDZV_ENDPOINT"].rsplit(":", 1)
    conf = dict(pair.split("=") for pair in os.environ["PET_RDZV_CONF"].split(","))
    if os.environ["PET_RDZV_BACKEND"] != "c10d" or not least <= most:
        sys.exit("these variables are not for an elastic job")
    socket.getaddrinfo(os.environ["PET_LOCAL_ADDR"], None)
    if conf["is_host"] == "1":
        lead(host, int(port), most)
    else:
        follow(host, int(port))


def lead(host: str, port: int, most: int) -> None:
    """Let others in, notice who is gone, and count until all is done."""
    door = socket.create_server((host, port))
    door.setblocking(False)
    lines: list[socket.socket] = []
    seen = 0
    while seen < int(os.environ["SAMPLES"]):
        try:
            lines.append(door.accept()[0])
        except BlockingIOError:
            time.sleep(float(os.environ["PAUSE_S"]))
        lines = [line for line in lines if is_there(line)]
        size = 1 + len(lines)
        if size > most:
            sys.exit(f"there are {size} of {most}")
        seen += size * N_EACH
        said = {"size": size, "seen": seen, "loss": 1 / seen, "at": time.time()}
        print("step", json.dumps(said), flush=True)  # noqa: T201
    for line in lines:
        line.sendall(b"done")


def is_there(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return bool(line.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def follow(host: str, port: int) -> None:
    while True:
        try:
            with socket.create_connection((host, port)) as line:
                if line.recv(4) == b"done":
                    return
        except OSError:
            pass
        time.sleep(0.1)


if __name__ == "__main__":
    main()
