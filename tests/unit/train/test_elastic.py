"""The library without Swell, without torch, and beside the plain script."""

from __future__ import annotations

import contextlib
import difflib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from swell import train
from swell.train import Elastic, elastic
from swell.train.bus.plan import Departure, GroupPlan, Held
from swell.train.errors import TrainError
from swell.train.fixed import FixedGroup
from swell.train.state.ledger import Progress
from tests.unit.train.cluster import ROOT

EXAMPLES = ROOT / "examples" / "train"


def test_the_elastic_script_differs_from_the_plain_one_by_few_lines() -> None:
    """Lines that have to be written, indentation aside: at most 8."""
    plain, elastic = (
        [line.strip() for line in (EXAMPLES / name).read_text().splitlines()]
        for name in ("plain_ddp.py", "elastic_ddp.py")
    )
    written = [line for line in difflib.ndiff(plain, elastic) if line.startswith("+ ")]

    assert 0 < len(written) <= 8


def test_import_needs_no_torch_and_swell_never_imports_it(tmp_path: Path) -> None:
    """Where torch is installed no module of Swell imports it, but those that are torch's own.

    They are named here: the user's script, transformers or torchrun has imported torch before.
    """
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')\n")
    code = (
        "import importlib, pkgutil, swell\n"
        "own = ('swell.train.backends.torch', 'swell.train.adapters.', 'swell.demo.__main__')\n"
        "for found in pkgutil.walk_packages(swell.__path__, 'swell.', onerror=print):\n"
        "    if not found.name.startswith(own) and not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "print(found.name)\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    output = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)

    assert output.returncode == 0, output.stderr.decode()
    assert output.stdout.startswith(b"swell.")


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, ""),
        ({"TRAININGJOB_NAME": "fit"}, "this pod trains alone"),
        ({"TRAININGJOB_NAME": "fit", "RANK": "0", "WORLD_SIZE": "1"}, "the size stays as it is"),
    ],
)
def test_pod_that_was_not_told_of_the_others_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    says: str,
) -> None:
    """Its job has not asked for them: all pods would train on all of the data."""
    for name in ("TRAININGJOB_NAME", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    model = Elastic({"w": np.zeros(1)})
    for _ in model.batches(4, batch_size=4):
        with model.step():
            pass
    said = capsys.readouterr().err

    assert ("reporting: true" in said, says in said) == (bool(says), True)


def test_torch_features_without_torch_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is imported without torch; what needs it says what is missing."""
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(TrainError, match=r"^wrap needs torch, which cannot be imported .*pip"):
        Elastic({"w": np.zeros(1)}, wrap=train.fsdp)


@pytest.mark.parametrize(
    ("name", "package"), [("HFCallback", "transformers"), ("LightningPlugin", "lightning")]
)
def test_adapters_without_their_library_are_one_sentence(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the library itself is lost by it."""
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("huggingface", "lightning"):
        monkeypatch.delitem(sys.modules, f"swell.train.adapters.{module}", raising=False)

    with pytest.raises(
        TrainError, match=rf"train\.{name} needs {package}, .*pip install {package}"
    ):
        getattr(train, name)


def test_several_loops_and_gradients_by_hand() -> None:
    """Epochs are counted from the beginning, so that a second loop goes on after the first."""
    net = {"w": np.zeros(2)}
    model = Elastic(net)
    n_seen = [0, 0]
    for loop in range(2):
        for x in model.batches(10, 3, epochs=loop + 1, final=loop == 1):
            with model.step():
                net["w"] += model.average(np.full(2, float(x.mean())))
                n_seen[loop] += len(x)

    assert n_seen == [10, 10]
    assert model.steps == 8
    assert (model.size, model.rank) == (1, 0)


def test_a_loop_that_can_have_no_batches_is_refused() -> None:
    """Epochs count from the beginning: one each time round trains a third of what was meant."""
    model = Elastic({"w": np.zeros(1)})

    def train(epochs: int) -> None:
        for _ in model.batches(4, 2, epochs=epochs):
            with model.step():
                pass

    train(1)
    with pytest.raises(TrainError, match=r"has no batches: epochs count from the beginning"):
        train(1)
    train(2)
    assert model.steps == 4


def test_a_checkpoint_of_one_that_left_meanwhile_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has found none begins from nothing, unless one was written while it waited."""

    def train_to_the_end() -> tuple[list[int], float]:
        net, done = {"w": np.zeros(1)}, []
        model = Elastic(net, checkpoint=tmp_path)
        for x in model.batches(8, 2):
            with model.step():
                net["w"] += x.sum()
                done.append(model.steps)
        return done, float(net["w"][0])

    found = []

    class Late(FixedGroup):
        def join(self, held: Held, *, trained: bool) -> GroupPlan | Departure:
            found.append(train_to_the_end())
            return super().join(held, trained=trained)

    groups = iter([Late(0, 1), FixedGroup(0, 1)])
    monkeypatch.setattr(elastic, "open_group_at", lambda *_: next(groups))
    found.append(train_to_the_end())

    assert found == [([0, 1, 2, 3], 28.0), ([], 28.0)]


def test_a_checkpoint_within_a_step_is_refused(tmp_path: Path) -> None:
    """It would have an update that its number of steps does not count."""
    model = Elastic({"w": np.zeros(1)}, checkpoint=tmp_path)
    with pytest.raises(TrainError, match="within a step"), model.step():
        model.save()
    with model.step():
        pass
    model.save()

    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001.swell"]


def test_a_batch_has_one_step() -> None:
    """Its samples would count twice, and others would be left out."""
    model = Elastic({"w": np.zeros(1)})
    for _ in model.batches(4, 2):
        with model.step():
            pass
        with pytest.raises(TrainError, match="a second step with the same batch"), model.step():
            pass
    assert model.steps == 2


def test_arrays_under_torchrun_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes have a meeting point for torch only."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(TrainError, match=r"^this is one of 2 processes of torchrun, and a model"):
        _ = Elastic({"w": np.zeros(1)}).size


def test_a_step_within_a_step_is_refused() -> None:
    """Both would count the samples of the batch, so that as many others would be left out."""
    model = Elastic({"w": np.zeros(1)})
    seen: list[int] = []
    for _ in model.batches(10, 2):
        seen += model.samples
        with model.step(), pytest.raises(TrainError, match="a step within a step"), model.step():
            pass

    assert sorted(seen) == list(range(10))


class Weights:
    """A model with a state, and an update that it knows of."""

    def __init__(self) -> None:
        self.value = 0.0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value = state["value"]

    def remember(self) -> None:
        self.before = self.value

    def put_back(self) -> None:
        self.value = self.before


def test_a_step_that_the_program_itself_broke_off_comes_again() -> None:
    """It leaves nothing behind, and its samples are those of the next batch."""
    model = Elastic(Weights())
    model.state["n"] = 0
    seen, breaks = [], True
    for _ in model.batches(6, 2, shuffle=False):
        seen.append(model.samples)
        with contextlib.suppress(KeyError), model.step():
            model.state["n"] += 1
            model.module.value += 1.0
            if breaks and 2 in model.samples:
                breaks = False
                raise KeyError

    assert seen == [[0, 1], [2, 3], [2, 3], [4, 5]]
    assert (model.steps, model.state["n"], model.module.value) == (3, 3, 3.0)


def test_progress_is_that_of_the_group(tmp_path: Path) -> None:
    """A new process learns of it before its first batch, so that loops over epochs can begin."""
    first = Elastic({"w": np.zeros(1)}, checkpoint=tmp_path)
    for _ in first.batches(4, 2, epochs=3):
        with first.step():
            pass
        if (first.epoch, first.steps) == (1, 4):
            first.save()
            break
    second = Elastic({"w": np.zeros(1)}, checkpoint=tmp_path)

    assert (second.epoch, second.steps) == (1, 4)


def test_the_state_of_another_program_is_refused(tmp_path: Path) -> None:
    """An array of another shape would be broadcast, and the training go on with nonsense."""
    first = Elastic({"w": np.zeros(1)}, checkpoint=tmp_path)
    _ = first.size
    first.save()

    for net in ({"w": np.zeros(3)}, {"v": np.zeros(1)}):
        with pytest.raises(TrainError, match="the state was made by another program: its net has"):
            _ = Elastic(net, checkpoint=tmp_path).size
    with pytest.raises(TrainError, match="the state was made by a program without optimizer"):
        _ = Elastic({"w": np.zeros(1)}, {"m": np.zeros(1)}, checkpoint=tmp_path).size


def test_a_batch_without_a_step_is_refused() -> None:
    """It would come again and again, since nobody has trained on it."""
    model = Elastic({"w": np.zeros(1)})

    with pytest.raises(TrainError, match=r"^a batch without a step would come again"):
        list(model.batches(4, 2))


def test_a_loop_that_is_left_leaves_no_batch_behind() -> None:
    """A step after it is one of the script's own, for which all members count alike."""
    model = Elastic({"w": np.zeros(1)})
    for _ in model.batches(4, 2):
        with model.step():
            pass
        break
    with model.step(), model.no_sync():
        pass

    assert model.samples == []
    assert model.steps == 2


def test_the_report_says_what_is_done_between_steps() -> None:
    """In a script's own words; afterwards it trains again."""
    model = Elastic({"w": np.zeros(1)})
    for _ in model.batches(4, batch_size=4):
        with model.step():
            pass
        with model.evaluating():
            evaluating = model._engine.reporter.report(Progress()).state
        with model.compiling():
            compiling = model._engine.reporter.report(Progress()).state
        training = model._engine.reporter.report(Progress()).state

    assert [state.value for state in (evaluating, compiling, training)] == [
        "evaluating",
        "compiling",
        "training",
    ]


def test_a_terminated_process_saves_and_exits_143(tmp_path: Path) -> None:
    """Without Swell, too: the next process goes on where this one ended."""

    def train(until: int | None) -> tuple[int, list[int]]:
        model = Elastic({"w": np.zeros(1)}, checkpoint=tmp_path)
        model.state["n"] = 0
        reasons: list[str] = []
        model.on_release(lambda reason, _: reasons.append(reason))
        seen: list[int] = []

        def loop() -> None:
            for _ in model.batches(20, 2, epochs=1):
                with model.step():
                    model.state["n"] += 1
                    seen.extend(model.samples)
                if model.steps == until:
                    os.kill(os.getpid(), signal.SIGTERM)

        if until is None:
            loop()
        else:
            with pytest.raises(SystemExit, match="143"):
                loop()
            assert reasons == ["terminated"]
        return model.state["n"], seen

    first_n, first = train(4)
    second_n, second = train(None)

    assert (first_n, second_n) == (4, 10)
    assert sorted(first + second) == list(range(20))


def test_an_error_of_the_script_is_its_own() -> None:
    """Only errors of the group are swallowed."""
    model = Elastic({"w": np.zeros(1)})

    def run() -> None:
        for _ in model.batches(4, 2):
            with model.step():
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run()


def test_one_process_alone_has_no_group_to_blame() -> None:
    """An error that looks like a lost line is the program's own: nothing is exchanged there."""
    model = Elastic({"w": np.zeros(1)})

    def run() -> None:
        for _ in model.batches(4, 2):
            with model.step():
                raise ConnectionResetError("of the script's own data base")

    with pytest.raises(ConnectionResetError, match="data base"):
        run()


def test_state_that_cannot_travel_is_refused_when_it_is_put() -> None:
    """Not when the first newcomer comes, or at the first save, perhaps hours later."""
    model = Elastic({"w": np.zeros(1)})
    model.state["seen"] = [1, (2.0, "a"), {"mean": np.zeros(3)}, None]

    with pytest.raises(TrainError, match=r'state\["seen"\]\[1\] is a set: give it state_dict'):
        model.state["seen"] = [1, {2, 3}]
    with pytest.raises(TrainError, match=r'state\["log"\] is a PosixPath'):
        model.state["log"] = Path("log")
    with pytest.raises(TrainError, match="an array of Python objects"):
        model.state["objects"] = np.array([object()])
    assert list(model.state) == ["seen"]


def test_averages_keep_the_form_of_their_tree() -> None:
    """Dicts, lists, tuples with and without names, and plain numbers."""

    class Gradients(NamedTuple):
        w: np.ndarray[Any, Any]
        loss: float

    model = Elastic({"w": np.zeros(1)})
    given = {"g": Gradients(np.array([1.0, 2.0]), 3.0), "pair": (1.0, [np.float32(2)])}
    found = model.average(given, weighted=False)

    assert isinstance(found["g"], Gradients)
    assert (found["g"].w.tolist(), found["g"].loss) == ([1.0, 2.0], 3.0)
    assert found["pair"] == (1.0, [2.0])


def test_wrong_arguments_are_refused_in_a_sentence() -> None:
    """Each message names the value and the choices."""
    with pytest.raises(TrainError, match=r'scale is one of global, member.*not "local"'):
        Elastic({"w": np.zeros(1)}, scale="local")
    with pytest.raises(TrainError, match="the net is a list"):
        Elastic([1])
    with pytest.raises(TrainError, match=r"wrap is for torch modules|wrap needs torch"):
        Elastic({"w": np.zeros(1)}, wrap=print)
    wrong: dict[str, Any] = {"base_size": 0, "redundancy_steps": 0, "minimum": 1.5}
    for name, value in wrong.items():
        with pytest.raises(TrainError, match=f"^{name} is {value}: it is a whole number, at least"):
            Elastic({"w": np.zeros(1)}, **{name: value})
    with pytest.raises(TrainError, match='save_every is "10x": give seconds'):
        Elastic({"w": np.zeros(1)}, save_every="10x")
    model = Elastic({"w": np.zeros(1)})
    wrong = {"batch_size": 2.5, "epochs": -1, "workers": -1, "seed": None}
    for name, value in wrong.items():
        with pytest.raises(TrainError, match=f"^{name} is {value}: it is a whole number, at least"):
            list(model.batches(4, **{"batch_size": 2, name: value}))


def test_jax_without_jax_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what is missing and how to get it."""
    monkeypatch.setitem(sys.modules, "jax", None)

    with pytest.raises(TrainError, match=r"train\.Jax needs jax, which cannot be imported .*pip"):
        train.Jax({"w": np.zeros(1)})
