"""Decides which containers of a pod to start, to restart and to stop. Pure.

Init containers run one after the other; a sidecar (an init container that always restarts) only
has to have started before the next. Then the main containers run together, and the pod's restart
policy says which of those that ended are restarted. As with a kubelet, the first restart is
immediate and later ones wait longer and longer, until a run has lasted long enough to be healthy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.backoff import Backoff
from swell.node.pods import BoundContainer, BoundPod
from swell.node.runs import Exited, Run, Running, Runs, Waiting

# The kubelet's values for CrashLoopBackOff, and for a run after which it starts over.
RESTART = Backoff(base_s=10.0, cap_s=300.0)
HEALTHY_S = 600.0


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Start a container for the first time, or again with the next attempt."""

    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Ask a container to end, and kill it after the grace period, which repeats only shorten."""

    name: str
    grace_s: float
    reason: str


Action = StartContainer | StopContainer


@dataclass(frozen=True, slots=True)
class NextStep:
    """Actions in order, when to decide again, and how far the pod is."""

    actions: tuple[Action, ...] = ()
    wake_at: float | None = None
    is_initialized: bool = False
    is_finished: bool = False  # nothing runs, and nothing will be started again
    has_failed: bool = False


def next_step(pod: BoundPod, runs: Runs, now: float) -> NextStep:
    """Returns the next step of a pod that is neither deleted nor out of time."""
    # Once a main container has been started, init containers are not waited for any more.
    is_past_init = any(container.name in runs for container in pod.spec.containers)
    steps = list(_init_steps(pod, runs, now, is_past=is_past_init))
    if any(step.is_fatal for step in steps):
        return _wind_down(pod, runs, has_failed=True)
    if not is_past_init and not all(step.is_passed for step in steps):
        return _progress(steps, is_initialized=False)
    mains = [_main_step(pod, container, runs, now) for container in pod.spec.containers]
    if all(step.is_passed or step.is_fatal for step in mains):
        # Sidecars end when the main containers have.
        return _wind_down(pod, runs, has_failed=any(step.is_fatal for step in mains))
    return _progress([*steps, *mains], is_initialized=True)


def backoff_until(run: Run) -> float:
    """Returns the time from which a container that ended may start again."""
    if not isinstance(run.state, Exited):
        return 0.0
    ran_s = run.state.finished_at - run.state.started_at
    n_restarts = 0 if ran_s >= HEALTHY_S else run.attempt
    return run.state.finished_at + RESTART.full_s(n_restarts)


def should_restart(
    pod: BoundPod, container: BoundContainer, ended: Exited, *, is_init: bool
) -> bool:
    """Whether a container that ended is restarted."""
    if is_init and container.is_sidecar:
        return True
    policy = pod.spec.restart_policy
    if is_init:
        return policy != "Never" and not ended.is_success
    return policy == "Always" or (policy == "OnFailure" and not ended.is_success)


@dataclass(frozen=True, slots=True)
class _ContainerStep:
    """One container: passed what is waited for, or failed for good, or neither."""

    is_passed: bool = False
    is_fatal: bool = False
    action: Action | None = None
    wake_at: float | None = None


_WAIT = _ContainerStep()


def _init_steps(
    pod: BoundPod, runs: Runs, now: float, *, is_past: bool
) -> Iterator[_ContainerStep]:
    for container in pod.spec.init_containers:
        if is_past and not container.is_sidecar:
            continue
        step = _init_step(pod, container, runs, now)
        yield step
        if not step.is_passed and not is_past:
            return


def _init_step(pod: BoundPod, container: BoundContainer, runs: Runs, now: float) -> _ContainerStep:
    run = runs.get(container.name)
    if run is None:
        return _ContainerStep(action=StartContainer(container.name, 0))
    if isinstance(run.state, Exited) and not container.is_sidecar:
        if run.state.is_success:
            return _ContainerStep(is_passed=True)
        if not should_restart(pod, container, run.state, is_init=True):
            return _ContainerStep(is_fatal=True)
    step = _next(pod, container, run, now)
    if not container.is_sidecar:
        return step
    return _ContainerStep(is_passed=_has_started(run), action=step.action, wake_at=step.wake_at)


def _has_started(run: Run) -> bool:
    return isinstance(run.state, Running) and run.state.is_started


def _main_step(pod: BoundPod, container: BoundContainer, runs: Runs, now: float) -> _ContainerStep:
    run = runs.get(container.name)
    if run is None:
        return _ContainerStep(action=StartContainer(container.name, 0))
    ended = run.state
    if isinstance(ended, Exited) and not should_restart(pod, container, ended, is_init=False):
        return _ContainerStep(is_passed=ended.is_success, is_fatal=not ended.is_success)
    return _next(pod, container, run, now)


def _next(pod: BoundPod, container: BoundContainer, run: Run, now: float) -> _ContainerStep:
    """Returns the step of a container that has been asked to start before."""
    match run.state:
        case Waiting(retry_at=None):
            return _WAIT
        case Waiting(retry_at=retry_at) if retry_at is not None:
            if retry_at > now:
                return _ContainerStep(wake_at=retry_at)
            return _ContainerStep(action=StartContainer(container.name, run.attempt))
        case Running(unhealthy=why, unhealthy_grace_s=grace_s) if why:
            own_s = float(pod.grace_s) if grace_s is None else grace_s
            return _ContainerStep(action=StopContainer(container.name, own_s, why))
        case Exited():
            due = backoff_until(run)
            if due > now:
                return _ContainerStep(wake_at=due)
            return _ContainerStep(action=StartContainer(container.name, run.attempt + 1))
        case _:
            return _WAIT


def _progress(steps: list[_ContainerStep], *, is_initialized: bool) -> NextStep:
    return NextStep(
        actions=tuple(step.action for step in steps if step.action is not None),
        wake_at=min((s.wake_at for s in steps if s.wake_at is not None), default=None),
        is_initialized=is_initialized,
    )


def _wind_down(pod: BoundPod, runs: Runs, *, has_failed: bool) -> NextStep:
    """Returns the step of a pod whose result is known: end what still runs."""
    actions = stop_all(pod, runs, float(pod.grace_s), "the pod's other containers have ended")
    return NextStep(
        actions,
        is_initialized=not has_failed or not _init_failed(pod, runs),
        is_finished=not is_active(runs),
        has_failed=has_failed,
    )


def _init_failed(pod: BoundPod, runs: Runs) -> bool:
    ends = [(c, runs[c.name].state) for c in pod.spec.init_containers if c.name in runs]
    return any(isinstance(e, Exited) and not e.is_success and not c.is_sidecar for c, e in ends)


def is_active(runs: Runs) -> bool:
    """Whether some container has a process, or may get one without another action."""
    return any(is_live(run) for run in runs.values())


def is_live(run: Run) -> bool:
    match run.state:
        case Running():
            return True
        case Waiting(retry_at=retry_at):
            return retry_at is None
        case Exited():
            return False


def stop_all(pod: BoundPod, runs: Runs, grace_s: float, reason: str) -> tuple[Action, ...]:
    """Returns the actions that stop a pod: main containers first, then sidecars, last to first."""
    mains = [c.name for c in pod.spec.containers]
    mains += [c.name for c in pod.spec.init_containers if not c.is_sidecar]
    live = [name for name in mains if name in runs and is_live(runs[name])]
    if not live:
        sidecars = [c.name for c in pod.spec.init_containers if c.is_sidecar]
        live = [name for name in reversed(sidecars) if name in runs and is_live(runs[name])][:1]
    return tuple(StopContainer(name, grace_s, reason) for name in live)
