"""The command line of the launcher: torchrun's flags and variables, and a few of its own.

A flag of torchrun that has no effect here is accepted, and `LaunchOptions.notes` says why it has
none. As torchrun does, a flag that is not given is read from the variable `PET_` and its name.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from swell.train.launch.output import ALL_STREAMS, NO_STREAM, Streams, parse_streams

FRAMEWORKS = ("pytorch", "jax", "paddle", "plain")
# torchrun's own default: workers that were sent SIGTERM get as long to end.
SHUTDOWN_S = 30.0
# A change of the group is a pause for all members: a worker that takes longer than this to save
# is killed, and goes on from the checkpoint before.
CHANGE_S = 5.0
# From `jax.distributed.initialize` on, JAX catches SIGTERM for its own notice of preemptions, and
# its processes do not end by it: of most scripts the grace period would be all waiting. Paddle
# catches it from its import on, to write a stack first, and may be stuck there: of forty pauses one
# was longer by the whole grace period.
CATCHING_CHANGE_S = {"jax": 1.0, "paddle": 1.0}
_MEET = "the members of the job agree on a meeting point among themselves"
_NO_EFFECT = {
    "rdzv_backend": _MEET,
    "rdzv_endpoint": _MEET,
    "rdzv_conf": _MEET,
    "node_rank": "ranks follow from who is in the group",
    "master_addr": _MEET,
    "master_port": _MEET,
    "local_addr": "the operator tells every member its address",
    "start_method": "workers are forked from a process that has the framework loaded, or started "
    "with --cold",
    "event_log_handler": "events of the group are written to the standard error stream",
    "logs_specs": "use --log-dir, --tee and --redirects",
    "numa_binding": "processes are bound by the node they run on",
    "duplicate_stdout_filters": "use --tee",
    "duplicate_stderr_filters": "use --tee",
}


class UsageError(Exception):
    """A command line that asks for something that cannot be. Its text is one sentence."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The command line, as values. `command` is the script and its arguments."""

    command: tuple[str, ...]
    n_local: int = 1
    nodes_min: int = 1
    nodes_max: int = 1
    framework: str = "pytorch"
    is_warm: bool = True
    preload: tuple[str, ...] = ()
    is_module: bool = False
    is_plain_command: bool = False
    max_restarts: int = 0
    interval_s: float = 0.02
    shutdown_s: float = SHUTDOWN_S
    change_s: float = CHANGE_S
    run_id: str = "none"
    role: str = "default"
    log_dir: str | None = None
    redirects: Streams = NO_STREAM
    tee: Streams = NO_STREAM
    shown_ranks: frozenset[int] | None = None
    prefix_template: str = ""
    signals: tuple[signal.Signals, ...] = ()
    is_virtual_local_rank: bool = False
    # Sentences about flags that were given and have no effect.
    notes: tuple[str, ...] = ()


class _ArgumentReader(argparse.ArgumentParser):
    """A parser that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> LaunchOptions:
    """Return the options of a command line; UsageError if they cannot be. `--help` exits."""
    given = parser().parse_args(list(arguments))
    notes = tuple(
        f"--{name.replace('_', '-')} has no effect here: {reason}"
        for name, reason in _NO_EFFECT.items()
        if getattr(given, name) is not None
    )
    read = _Reader(given, environ)
    framework = given.framework or guess_framework(environ)
    low, high = _bounds(read.text("nnodes", "1:1"))
    shown = read.text("local_ranks_filter", "")
    return LaunchOptions(
        command=(given.training_script, *given.training_script_args),
        n_local=n_workers(read.text("nproc_per_node", "1"), environ),
        nodes_min=low,
        nodes_max=high,
        framework=framework,
        is_warm=not (given.cold or read.flag("no_python")),
        preload=tuple(name for name in (given.preload or "").split(",") if name),
        is_module=read.flag("module"),
        is_plain_command=read.flag("no_python"),
        max_restarts=read.number("max_restarts", 0),
        # torchrun's interval is 0.1 s and more: a pause would be longer by it.
        interval_s=min(read.seconds("monitor_interval", 0.02), 0.02),
        shutdown_s=read.seconds("shutdown_timeout", SHUTDOWN_S),
        change_s=_change_s(given.change_timeout, framework),
        run_id=read.text("rdzv_id", environ.get("TRAININGJOB_NAME", "none")),
        role=read.text("role", "default"),
        log_dir=read.text("log_dir", "") or None,
        redirects=_streams(read.text("redirects", "0")),
        tee=_streams(read.text("tee", "0")),
        shown_ranks=_ranks(shown) if shown else None,
        prefix_template=read.text("log_line_prefix_template", "")
        or environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", ""),
        signals=_signals(read.text("signals_to_handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")),
        is_virtual_local_rank=read.flag("virtual_local_rank"),
        notes=notes,
    )


def parser() -> argparse.ArgumentParser:
    """The parser; a flag that is not given is None, and read from its variable then."""
    made = _ArgumentReader(
        prog="swell launch",
        description="Run a training script on every member of a job, and again when the members "
        "change. It takes the place of torchrun, and takes torchrun's flags.",
    )
    own = made.add_argument_group("workers")
    own.add_argument("--framework", choices=FRAMEWORKS, help="whose variables the script reads")
    _add(own, "--nproc-per-node", metavar="N", help="workers here: a number, gpu, cpu or auto")
    _add(own, "--nnodes", metavar="MIN[:MAX]", help="members that have to be there, at least")
    _add(own, "--max-restarts", type=int, metavar="N", help="failures of workers to survive")
    own.add_argument("--cold", action="store_true", help="start a new interpreter every time")
    own.add_argument("--preload", metavar="MODULES", help="modules to import before the fork")
    _add_timing(made.add_argument_group("time"))
    _add_logs(made.add_argument_group("output"))
    script = made.add_argument_group("script")
    script.add_argument("-m", "--module", action="store_true", default=None, help="as python -m")
    _add(script, "--no-python", action="store_true", help="the command is no Python script")
    _add(script, "--run-path", action="store_true", help="as without it: a script by its path")
    _add(script, "--role", metavar="NAME", help="name of the workers in the output")
    _add(script, "--rdzv-id", metavar="ID", help="name of the run; the job's without it")
    _add(script, "--standalone", action="store_true", help="as without it, outside of a job")
    _add(script, "--virtual-local-rank", action="store_true", help="one GPU a worker, LOCAL_RANK 0")
    others = made.add_argument_group("flags of torchrun that have no effect here")
    for name in _NO_EFFECT:
        _add(others, f"--{name.replace('_', '-')}", metavar="X")
    made.add_argument("training_script", metavar="SCRIPT", help="the script to train with")
    made.add_argument("training_script_args", nargs=argparse.REMAINDER, metavar="...")
    return made


def _add_timing(group: argparse._ArgumentGroup) -> None:
    _add(group, "--monitor-interval", type=float, metavar="S", help="at most 0.02 here")
    _add(group, "--shutdown-timeout", type=float, metavar="S", help="from SIGTERM to SIGKILL")
    group.add_argument(
        "--change-timeout",
        type=float,
        metavar="S",
        help="the same, when the group changes: 5, and 1 for JAX and Paddle",
    )
    _add(group, "--signals-to-handle", metavar="NAMES", help="signals that are passed on")


def _add_logs(group: argparse._ArgumentGroup) -> None:
    _add(group, "--log-dir", metavar="DIR", help="folder for the files of --redirects and --tee")
    group.add_argument("-r", "--redirects", metavar="STREAMS", help="1 stdout, 2 stderr, 3 both")
    group.add_argument("-t", "--tee", metavar="STREAMS", help="the same, and shown with a prefix")
    _add(group, "--local-ranks-filter", metavar="RANKS", help="workers whose output is shown")
    _add(group, "--log-line-prefix-template", metavar="TEXT", help="as ${role_name}${rank}: ")


def _add(group: argparse._ArgumentGroup, flag: str, **more: object) -> None:
    """Add a flag in both of torchrun's spellings. It is None when it was not given."""
    names = dict.fromkeys((flag, "--" + flag[2:].replace("-", "_")))
    group.add_argument(*names, default=None, **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a flag; if it was not given its variable; if there is none a default."""

    given: argparse.Namespace
    environ: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        value = getattr(self.given, name)
        found = self.environ.get(f"PET_{name.upper()}", default) if value is None else value
        return str(found)

    def number(self, name: str, default: int) -> int:
        text = self.text(name, str(default))
        if not re.fullmatch(r"\d+", text):
            raise UsageError(f"--{name.replace('_', '-')} takes a number from 0 on, not {text!r}")
        return int(text)

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name, str(default))
        if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
            raise UsageError(f"--{name.replace('_', '-')} takes seconds, not {text!r}")
        return float(text)

    def flag(self, name: str) -> bool:
        if getattr(self.given, name):
            return True
        return self.environ.get(f"PET_{name.upper()}", "0") not in {"", "0"}


def _change_s(given: float | None, framework: str) -> float:
    if given is not None:
        return given
    return CATCHING_CHANGE_S.get(framework, CHANGE_S)


def guess_framework(environ: Mapping[str, str]) -> str:
    """The framework whose variables the operator gave to this process, or that is installed."""
    if "PADDLE_TRAINER_ID" in environ or "PADDLE_TRAINERS_NUM" in environ:
        return "paddle"
    if "JAX_COORDINATOR_ADDRESS" in environ:
        return "jax"
    return "pytorch" if importlib.util.find_spec("torch") else "plain"


def n_workers(text: str, environ: Mapping[str, str]) -> int:
    """The number of workers that `--nproc-per-node` asks for."""
    if re.fullmatch(r"[1-9]\d*", text):
        return int(text)
    n_gpus = count_gpus(environ)
    if text == "gpu":
        if n_gpus == 0:
            raise UsageError("--nproc-per-node=gpu: no GPU is visible on this machine")
        return n_gpus
    if text == "cpu" or (text == "auto" and n_gpus == 0):
        return os.cpu_count() or 1
    if text == "auto":
        return n_gpus
    raise UsageError(f"--nproc-per-node takes a number from 1 on, gpu, cpu or auto, not {text!r}")


def count_gpus(environ: Mapping[str, str]) -> int:
    """The GPUs that a worker would see, without initialising any of them."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        named = [name.strip() for name in visible.split(",")]
        # CUDA stops reading at the first name that is none.
        return next((i for i, name in enumerate(named) if name in {"", "-1"}), len(named))
    try:
        return sum(bool(re.fullmatch(r"nvidia\d+", one.name)) for one in Path("/dev").iterdir())
    except OSError:
        return 0


def _bounds(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)(?::([1-9]\d*))?", text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise UsageError(f"--nnodes takes a number or MIN:MAX, not {text!r}")
    return int(found[1]), int(found[2] or found[1])


def _streams(text: str) -> Streams:
    streams = parse_streams(text)
    if streams is None:
        raise UsageError(f"streams are 0 to {ALL_STREAMS} or RANK:STREAMS,..., not {text!r}")
    return streams


def _ranks(text: str) -> frozenset[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise UsageError(f"--local-ranks-filter takes ranks by commas, not {text!r}")
    return frozenset(map(int, text.split(",")))


def _signals(text: str) -> tuple[signal.Signals, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in signal.Signals.__members__]
    if unknown:
        raise UsageError(f"--signals-to-handle: there is no signal {unknown[0]!r}")
    return tuple(signal.Signals[name] for name in names)
