"""A training program without a framework: a small network of numpy arrays, by hand."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from typing import Any

import numpy as np

from swell.train import Elastic
from swell.train.errors import GroupBrokenError

N_SAMPLES = 600
N_BATCH = 20


# Facts have the true time, also where the program's clock is shifted.
TRUE_TIME = time.time


def say(**fact: Any) -> None:
    os.write(1, json.dumps({"at": TRUE_TIME(), **fact}).encode() + b"\n")


def step_clock(seed: str) -> None:
    """Let the wall clock of this program step by up to an hour, every second."""
    began = time.monotonic()

    def shifted() -> float:
        second = int(time.monotonic() - began)
        return TRUE_TIME() + random.Random(f"{seed} {second}").uniform(-3600.0, 3600.0)

    time.time = shifted


def main() -> None:
    if "CLOCK" in os.environ:
        step_clock(os.environ["CLOCK"])
    rng = np.random.default_rng(7)
    inputs = rng.normal(size=(N_SAMPLES, 6))
    wanted = np.sin(inputs.sum(axis=1))
    net = {"w": rng.normal(size=(6, 8)) / 3, "v": rng.normal(size=8) / 3}
    momentum = {name: np.zeros_like(array) for name, array in net.items()}
    checkpoint = os.environ.get("CHECKPOINT")
    model = Elastic(
        net, momentum, checkpoint=checkpoint, save_every=float(os.environ.get("SAVE_EVERY", "600"))
    )
    model.state["n_updates"] = 0
    model.on_change(lambda old, new: say(change=[old, new], step=model.steps))
    data = list(zip(inputs, wanted, strict=True))
    epochs = int(os.environ.get("EPOCHS", "8"))
    for x, y in model.batches(data, batch_size=N_BATCH, epochs=epochs, seed=3):
        done, epoch, samples = model.steps, model.epoch, model.samples
        with contextlib.suppress(KeyError), model.step():
            time.sleep(float(os.environ.get("STEP_S", "0")))
            hidden = np.tanh(x @ net["w"])
            error = hidden @ net["v"] - y
            back = np.outer(error, net["v"]) * (1 - hidden**2)
            grads = {"w": x.T @ back / len(y), "v": hidden.T @ error / len(y)}
            grads = model.average(grads)
            if os.environ.get("BREAKS_AT") == f"{model.rank} {done + 1}":
                del os.environ["BREAKS_AT"]
                raise GroupBrokenError("here alone: the others have all that this step needs")
            if os.environ.get("ERRS_AT") == f"{model.rank} {done + 1}":
                del os.environ["ERRS_AT"]
                raise KeyError("an error of the program, which catches it and goes on")
            for name in net:
                momentum[name] *= 0.9
                momentum[name] += grads[name]
                net[name] -= 0.05 * momentum[name]
            model.state["n_updates"] += 1
        if "LOOKS" in os.environ:
            with contextlib.suppress(GroupBrokenError):  # the next step is in another group
                model.average(1.0, weighted=False)
        if model.steps > done:
            plan = model._formed().plan
            say(
                step=model.steps,
                epoch=epoch,
                samples=samples,
                size=plan.size,
                rank=model.rank,
                generation=plan.generation,
            )
    flat = np.concatenate([array.reshape(-1) for array in net.values()])
    say(final=flat.tolist(), n_updates=model.state["n_updates"], steps=model.steps)


if __name__ == "__main__":
    main()
