"""What scripts do with a torch model besides the plain loop; each check prints a line of JSON.

One process, without Swell: `python -m tests.e2e.train.loop_program`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from swell import train
from swell.train import Elastic
from swell.train.errors import TrainError

X, Y = torch.randn(24, 3, generator=torch.Generator().manual_seed(5)), torch.ones(24, 1)
DATA = torch.utils.data.TensorDataset(X, Y)


def made(optimizer_type: Callable[..., Any] = torch.optim.SGD) -> tuple[Any, Any, Elastic]:
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    optimizer = optimizer_type(net.parameters(), lr=0.1)
    return net, optimizer, Elastic(net, optimizer)


def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x) - y).square().mean()


def weights_after_a_scaled_step_breaks() -> bool:
    """A step that broke off between the scaler's look at the gradients and the update."""

    def train(breaks: bool) -> torch.Tensor:
        net, optimizer, model = made()
        scaler = model.state["scaler"] = torch.amp.GradScaler("cpu", init_scale=64.0)
        for x, y in model.batches(DATA, 12):
            with model.step():
                optimizer.zero_grad()
                scaler.scale(loss_of(model, x, y)).backward()
                scaler.unscale_(optimizer)
                if breaks:
                    breaks = False
                    model._framework.learner.undo_step()
                    optimizer.zero_grad()
                    scaler.scale(loss_of(model, x, y)).backward()
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
        return net.weight.detach().clone()

    return bool(torch.equal(train(breaks=False), train(breaks=True)))


def an_update_left_out_is_confirmed() -> bool:
    """Gradients that are not finite may be those of a collective that was aborted."""
    _, optimizer, model = made()
    scaler = torch.amp.GradScaler("cpu")
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1

    for x, y in model.batches(DATA, 24):
        model._framework.collectives.check = check  # type: ignore[attr-defined]
        with model.step():
            optimizer.zero_grad()
            scaler.scale(loss_of(model, x, y) * float("inf")).backward()
            scaler.step(optimizer)
            scaler.update()
    return asked == 1 and not model._framework.learner.has_updated


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """An iterable dataset with a length; torch gives it an index that raises."""

    def __init__(self) -> None:
        self.at = 0

    def __len__(self) -> int:
        return len(X)

    def __iter__(self) -> Iterator[Any]:
        while self.at < len(X):
            self.at += 1
            yield X[self.at - 1], Y[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Endless(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """An iterable dataset that cannot resume, and has a length."""

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


def samples_of(data: Any, **options: Any) -> int:
    _, optimizer, model = made()
    n_samples = 0
    for x, y in model.batches(data, 5, epochs=2, **options):
        with model.step():
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
            n_samples += len(x)
    return n_samples


def refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except TrainError as error:
        if torch.distributed.is_initialized():  # the loop has not come to its end
            torch.distributed.destroy_process_group()
        return str(error)
    return "none"


def two_updates() -> None:
    _, optimizer, model = made()
    for x, y in model.batches(DATA, 24):
        with model.step():
            loss_of(model, x, y).backward()
            optimizer.step()
            optimizer.step()


def update_after_the_step() -> None:
    _, optimizer, model = made()
    for x, y in model.batches(DATA, 24):
        with model.step():
            loss_of(model, x, y).backward()
        optimizer.step()


def closure() -> None:
    _, optimizer, model = made(torch.optim.LBFGS)
    for _ in model.batches(DATA, 24):
        with model.step():
            optimizer.step(lambda: loss_of(model, X, Y))


def a_group_of_the_scripts_own() -> None:
    """Left over from the plain script."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    _ = made()[2].size


def a_loss_with_its_history() -> None:
    _, _, model = made()
    for x, y in model.batches(DATA, 24):
        with model.step():
            model.state["loss"] = loss_of(model, x, y)


def an_optimizer_of_its_own() -> None:
    """One that was made anew after `Elastic` was: the moments of the other would travel."""
    net, _, model = made()
    other = torch.optim.Adam(net.parameters())
    for x, y in model.batches(DATA, 24):
        with model.step():
            loss_of(model, x, y).backward()
            other.step()


def a_parameter_outside_of_the_model(**options: Any) -> None:
    net, factor = torch.nn.Linear(3, 1), torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([*net.parameters(), factor], lr=0.1)
    model = Elastic(net, optimizer, **options)
    for x, y in model.batches(DATA, 24):
        with model.step():
            (loss_of(model, x, y) * factor.sum()).backward()
            optimizer.step()


class Composed(torch.optim.Optimizer):  # type: ignore[misc]
    """An optimizer that leaves its updates to another one."""

    def __init__(self, parameters: Any, lr: float) -> None:
        self._base = torch.optim.SGD(parameters, lr=lr)
        super().__init__(self._base.param_groups, {})

    def step(self) -> None:
        self._base.step()


def updates_of_other_optimizers() -> int:
    """An optimizer may use another one, and one of another model is the script's own."""
    _, optimizer, model = made(Composed)
    other = torch.nn.Linear(3, 1)
    others = torch.optim.SGD(other.parameters(), lr=0.1)
    for x, y in model.batches(DATA, 12):
        with model.step():
            optimizer.zero_grad()
            (loss_of(model, x, y) + loss_of(other, x, y)).backward()
            optimizer.step()
            others.step()
    return model.steps


def refusals_of_another_wrappers_checkpoint() -> list[str]:
    """Shards are no whole state, and a whole state is no shards."""
    said = []
    for first, second in ((None, train.fsdp), (train.fsdp, None)):
        with tempfile.TemporaryDirectory() as folder:
            for wrap in (first, second):
                net = torch.nn.Linear(3, 1)
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                model = Elastic(net, optimizer, wrap=wrap, checkpoint=folder)
                said.append(refusal(functools.partial(list, model.batches(0, 1))))
    return said


def modes_of_a_sharded_model() -> list[bool]:
    """What the script sets after it has made the model holds in every group."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model = Elastic(net, optimizer, wrap=train.fsdp)
    model.module[1].eval()
    model.module[0].bias.requires_grad_(False)
    _ = model.size
    linear, norm = model.module
    model.finish()
    return [linear.training, norm.training, linear.weight.requires_grad, linear.bias.requires_grad]


def updates_of_a_step_with_an_error() -> int:
    """An update that was applied is not done again, though the script had an error after it."""
    _, optimizer, model = made()
    n_updates, fails = 0, True
    for x, y in model.batches(DATA, 12):
        with contextlib.suppress(KeyError), model.step():
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
            n_updates += 1
            if fails:
                fails = False
                raise KeyError
    assert model.steps == n_updates
    return n_updates


def first_example_of_the_page() -> int:
    """The steps of the first example in docs/training.md, run as it is written there."""
    text = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    example = text.partition("```python\n")[2].partition("```")[0]
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with tempfile.TemporaryDirectory() as folder:
        names = {
            "net": net,
            "optimizer": optimizer,
            "criterion": torch.nn.MSELoss(),
            "data": torch.utils.data.TensorDataset(X.repeat(20, 1), Y.repeat(20, 1)),
            "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2),
        }
        exec(example.replace("/ckpt/a", folder), names)
        assert list(Path(folder).iterdir())
    steps: int = names["model"].steps
    return steps


def main() -> None:
    several = [torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)] * 2
    found = {
        "first example of the page": first_example_of_the_page(),
        "scaler": weights_after_a_scaled_step_breaks(),
        "left out": an_update_left_out_is_confirmed(),
        "stream": samples_of(Stream()),
        "workers": samples_of(DATA, workers=2),
        "no place": refusal(lambda: samples_of(Endless())),
        "two updates": refusal(two_updates),
        "late update": refusal(update_after_the_step),
        "closure": refusal(closure),
        "own group": refusal(a_group_of_the_scripts_own),
        "history": refusal(a_loss_with_its_history),
        "other optimizer": refusal(an_optimizer_of_its_own),
        "outside": refusal(a_parameter_outside_of_the_model),
        "outside of shards": refusal(lambda: a_parameter_outside_of_the_model(wrap=train.fsdp)),
        "several optimizers": updates_of_other_optimizers(),
        "loader": refusal(lambda: samples_of(torch.utils.data.DataLoader(DATA))),
        "another wrapper": refusals_of_another_wrappers_checkpoint(),
        "modes": modes_of_a_sharded_model(),
        "updates": updates_of_a_step_with_an_error(),
        "optimizers": refusal(lambda: Elastic(torch.nn.Linear(1, 1), several)),
    }
    print(json.dumps(found))  # noqa: T201 (the output of this program)


if __name__ == "__main__":
    main()
