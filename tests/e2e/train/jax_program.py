"""A training program with JAX, in an elastic group."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from swell import train


def say(**fact: Any) -> None:
    os.write(1, json.dumps({"at": time.time(), **fact}).encode() + b"\n")


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["w"])
    return jnp.mean((hidden @ params["v"] - y) ** 2)


def updated(params: Any, momentum: Any, noise: Any) -> Any:
    return jax.tree.map(
        lambda p, m: p - 0.02 * m + 1e-3 * jax.random.normal(noise, p.shape), params, momentum
    )


def main() -> None:
    chance = np.random.default_rng(5)
    inputs = chance.normal(size=(600, 6)).astype(np.float32)
    data = list(zip(inputs, np.sin(inputs.sum(axis=1)), strict=True))
    params = {
        "w": jnp.asarray(chance.normal(size=(6, 8)) / 3, jnp.float32),
        "v": jnp.asarray(chance.normal(size=8) / 3, jnp.float32),
    }
    momentum = jax.tree.map(jnp.zeros_like, params)
    job = train.Jax(params, opt_state={"momentum": momentum, "key": jax.random.key(7)})
    job.state["seen"] = jnp.zeros(2)
    gradient = jax.jit(jax.grad(loss))
    for x, y in job.batches(data, batch_size=24, epochs=int(os.environ.get("EPOCHS", "8"))):
        done = job.steps
        with job.step():
            grads = job.average(gradient(job.params, x, y))
            key, noise = jax.random.split(job.opt_state["key"])
            momentum = jax.tree.map(lambda m, g: 0.9 * m + g, job.opt_state["momentum"], grads)
            job.opt_state = {"momentum": momentum, "key": key}
            job.params = updated(job.params, momentum, noise)
            job.state["seen"] += 1
            # A member that is lost here breaks a step whose update has been assigned.
            time.sleep(float(Path(os.environ["PACE"]).read_text()) if "PACE" in os.environ else 0)
            job.average([loss(job.params, x, y)])
        if job.steps > done:
            plan = job._elastic._formed().plan
            say(step=job.steps, size=plan.size, rank=job.rank, generation=plan.generation)
    assert job.state["seen"].tolist() == [job.steps] * 2
    flat = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(job.params)])
    say(final=flat.tolist(), steps=job.steps)


if __name__ == "__main__":
    main()
