"""A program of PaddlePaddle's: asks its role maker what it is, then trains with the others.

Run with an interpreter that has PaddlePaddle, as `paddle_program.py servers` in trainers and
pservers, or as `paddle_program.py collective` in trainers. It prints the role maker's answers as
one line of JSON, and then how far it came. Trainers register with every pserver before their first
step, so a step shows that all of them were reached.
"""

from __future__ import annotations

import json
import os
import sys

# Without a GPU, trainers meet over Gloo.
os.environ.setdefault("PADDLE_DISTRI_BACKEND", "gloo")

import numpy as np
import paddle
from paddle.base import core
from paddle.distributed import fleet

STEPS, ROWS, FEATURES = 20, 16, 4


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201


def with_servers() -> None:
    """Take some steps with the parameters on the pservers."""
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    is_server = fleet.is_server()
    tell(
        role="pserver" if is_server else "trainer",
        index=fleet.server_index() if is_server else fleet.worker_index(),
        n_trainers=fleet.worker_num(),
        pservers=fleet.server_endpoints(),
    )
    if not hasattr(core, "DistFleetWrapper"):
        return  # a build of PaddlePaddle without parameter servers
    loss = model()
    if is_server:
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    numbers = np.random.default_rng(fleet.worker_index())
    for _ in range(STEPS):
        x = numbers.random((ROWS, FEATURES), dtype=np.float32)
        feed = {"x": x, "y": x.sum(axis=1, keepdims=True)}
        main = paddle.static.default_main_program()
        executor.run(main, feed=feed, fetch_list=[loss])
    tell(n_steps=STEPS)
    fleet.stop_worker()


def model() -> object:
    """The loss of a line, and its optimizer, in the default program."""
    x = paddle.static.data("x", [None, FEATURES], "float32")
    y = paddle.static.data("y", [None, 1], "float32")
    error = paddle.nn.functional.square_error_cost(paddle.static.nn.fc(x, 1), y)
    loss = paddle.mean(error)
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.005), strategy).minimize(loss)
    return loss


def collective() -> None:
    """Add up a number of every trainer."""
    maker = fleet.PaddleCloudRoleMaker(is_collective=True)
    paddle.distributed.init_parallel_env()
    fleet.init(maker, is_collective=True)
    tell(
        role="trainer",
        index=fleet.worker_index(),
        n_trainers=fleet.worker_num(),
        trainers=fleet.worker_endpoints(),
    )
    number = paddle.to_tensor([float(fleet.worker_index() + 1)])
    paddle.distributed.all_reduce(number)
    tell(sum=float(number.numpy()[0]))


if __name__ == "__main__":
    {"servers": with_servers, "collective": collective}[sys.argv[1]]()
