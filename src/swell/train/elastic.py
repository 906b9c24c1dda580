"""The class `Elastic`: the user's model in a group whose size may change at every step."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swell.api.injection import CHECKPOINTS_VARIABLE
from swell.api.report import TrainingState
from swell.train.amounts import count_of, seconds_of
from swell.train.backends.framework import ModelFramework, framework_of
from swell.train.checkpoints.folder import CheckpointFolder
from swell.train.checkpoints.saver import Saver
from swell.train.collectives import Collectives
from swell.train.data.sources import Collate, SampleBatch, SampleSource, source_of
from swell.train.engine import Engine, Generation
from swell.train.errors import GroupBrokenError, TrainError
from swell.train.fixed import fixed_group
from swell.train.group import Group
from swell.train.hang import hang_watch_of, print_stacks_on_signal
from swell.train.hooks import OnChange, OnRelease, TrainHooks
from swell.train.place import JOB_VARIABLE, Place, place_of
from swell.train.scaling import RULES, rate_factor
from swell.train.state.ledger import Progress, TrainLedger, UserState

SCALES = ("global", "member")


class Elastic:
    """A model that trains in a group whose size may change at every step.

    The group is joined by the first use of it: `batches`, `step`, `size`, `rank`, `steps`, `epoch`,
    or a call. What `scale` says is constant: the global batch (results do not depend on the size),
    or each member's (then the learning rate, given for `base_size` members, follows `lr_rule`).
    """

    def __init__(
        self,
        net: Any,
        optimizer: Any = None,
        scheduler: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        wrap: Any = None,
        scale: str = "global",
        lr_rule: str = "linear",
        base_size: int = 1,
        redundancy: int = 1,
        redundancy_steps: int = 20,
        save_every: str | float = "10m",
        keep: int = 2,
        minimum: int = 1,
        device: Any = None,
        backend: str | None = None,
        place: Place | None = None,
    ) -> None:
        if scale not in SCALES or lr_rule not in RULES:
            raise TrainError(
                f"scale is one of {', '.join(SCALES)}, and lr_rule one of {', '.join(RULES)};"
                f' not "{scale}" and "{lr_rule}"'
            )
        self._scale, self._lr_rule = scale, lr_rule
        self._base_size = count_of("base_size", base_size, 1)
        self._ledger = TrainLedger()
        if scheduler is not None:
            self._ledger.user["scheduler"] = scheduler
        self._place = place or place_of(os.environ)
        self._hooks = TrainHooks(self._place.release if self._place else None)
        self._minimum = count_of("minimum", minimum, 1)
        self._framework: ModelFramework = framework_of(
            net,
            optimizer,
            ledger=self._ledger,
            place=self._place,
            wrap=wrap,
            device=device,
            backend=backend,
            redundancy=(
                count_of("redundancy", redundancy, 0),
                count_of("redundancy_steps", redundancy_steps, 1),
            ),
        )
        self._ledger.user.check = self._framework.codec.check
        self._saver: Saver | None = None
        every_s = seconds_of(save_every)
        checkpoint = checkpoint or os.environ.get(CHECKPOINTS_VARIABLE)
        if checkpoint:
            kept = count_of("keep", keep, 1)
            folder = CheckpointFolder(Path(checkpoint), keep=kept, warn=_warn)
            self._saver = Saver(folder, self._framework.codec, every_s=every_s, warn=_warn)
        self._engine_made: Engine | None = None
        self._batch: SampleBatch | None = None
        # The batch has had its step, and one was tried at least.
        self._is_stepped = self._is_begun = False
        self._finished = False
        # The epochs of the last loop that has come to its end.
        self._n_looped: int | None = None
        print_stacks_on_signal()

    # ---- the loop

    def batches(
        self,
        data: Any,
        batch_size: int,
        epochs: int = 1,
        *,
        shuffle: bool = True,
        seed: int = 0,
        collate: Collate | None = None,
        workers: int = 0,
        final: bool = True,
    ) -> Iterator[Any]:
        """This member's part of every global batch, from where the last finished step ended.

        `epochs` counts from the beginning of the training. After the last loop (`final`) the group
        is left; a program with several loops passes `final=False` to all but the last. So many
        `workers` are threads that load samples while the batch before is trained on.
        """
        batch_size, epochs = count_of("batch_size", batch_size, 1), count_of("epochs", epochs, 0)
        source = source_of(
            data,
            seed=count_of("seed", seed, 0),
            shuffle=shuffle,
            workers=count_of("workers", workers, 0),
        )
        try:
            yield from self._batches(source, batch_size, epochs, collate=collate, final=final)
        finally:
            self._batch = None
            source.close()

    def _batches(
        self,
        source: SampleSource,
        batch_size: int,
        epochs: int,
        *,
        collate: Collate | None,
        final: bool,
    ) -> Iterator[Any]:
        gather = collate or self._framework.collate
        engine, ledger = self._engine, self._ledger
        ledger.follow(lambda progress: source.capture(progress.position), source.restore)
        self._say_totals(source, batch_size, epochs)
        if self._finished and self._place and not self._is_over(source, epochs):
            raise TrainError(
                "the group was left after the loop before this one: say `final=False` in all loops"
                " over `batches` but the last"
            )
        if self._n_looped is not None and epochs <= self._n_looped:
            raise TrainError(
                f"a loop over `batches` with epochs={epochs} after one with epochs={self._n_looped}"
                " has no batches: epochs count from the beginning of the training. For one epoch at"
                " a time say `epochs=epoch + 1`, and `final=False` in all loops but the last"
            )
        while not (self._is_over(source, epochs) and (not final or self._is_finished())):
            formed = engine.ready()
            batch = self._next_batch(source, batch_size, formed)
            if batch is None or self._is_over(source, epochs):
                continue
            self._batch, self._is_stepped, self._is_begun = batch, False, False
            self._framework.set_rate_factor(self._factor(formed.plan.size, batch_size))
            yield gather(batch.items)
            if not self._is_begun:
                raise TrainError(
                    "a batch without a step would come again for ever: train on it in"
                    " `with model.step():`, which may be left empty"
                )
        if source.n_samples != 0:
            self._n_looped = epochs

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """One step: done by all, or redone by those who are left.

        If a member is lost meanwhile the body ends early, its error is swallowed, and `batches`
        gives the same samples again, cut for the new size.
        """
        batch = self._batch
        if batch is None:  # a loop of the user's own: all members count alike
            with self._engine.step(0, 0, 1.0 / self.size):
                yield
            return
        if self._is_stepped:
            raise TrainError("a second step with the same batch: its samples would count twice")
        done, self._is_begun = self.steps, True
        try:
            with self._engine.step(batch.n_whole, batch.n_mine, batch.weight):
                yield
        finally:
            self._is_stepped = self.steps > done

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Backward passes within add up gradients here; the first one outside averages the sum.

        For a batch that is computed in several parts, all of them in one `step`.
        """
        return self._framework.no_sync()

    def average(self, values: Any, *, weighted: bool = True) -> Any:
        """The mean of values over all members, weighted by their parts of the batch.

        Between two steps it raises GroupBrokenError if a member is lost meanwhile.
        """
        size = self.size
        if self._engine.is_broken:
            raise GroupBrokenError("the group has broken up: the next step begins in another one")
        with self._engine.broken_up():
            return self._framework.average(values, weighted=weighted, size=size)

    def finish(self) -> None:
        """Wait for the other members, and say that all is trained.

        `batches` does so after its last batch.
        """
        if not self._is_finished():
            raise TrainError("the others went on from an older state: steps are to be done again")

    def _is_finished(self) -> bool:
        """Whether the end is agreed on; otherwise there are steps to be done again."""
        self._finished = self._finished or self._engine.finish()
        return self._finished

    # ---- the model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._formed()
        with self._engine.broken_up():
            return self._framework.call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Names of the model's own: parameters, train, eval. Ours are found before this is asked.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._framework.module, name)

    @property
    def module(self) -> Any:
        """The model itself, without a wrapper."""
        return self._framework.module

    # ---- the group

    @property
    def state(self) -> UserState:
        """Everything else that has to survive: plain values, or objects with `state_dict`."""
        return self._ledger.user

    @property
    def size(self) -> int:
        return self._formed().plan.size

    @property
    def rank(self) -> int:
        return self._formed().rank

    @property
    def is_leaving(self) -> bool:
        """Whether this member was asked to leave. It exits at a step that all agree on."""
        return self._engine.group.is_leaving

    @property
    def steps(self) -> int:
        return self._progress.step

    @property
    def epoch(self) -> int:
        return self._progress.epoch

    @property
    def samples(self) -> list[int]:
        """The samples of this member's part of the current batch, by their indexes."""
        return self._batch.indexes if self._batch else []

    def on_change(self, hook: OnChange) -> OnChange:
        """Call a function with the old and the new size, in every new group."""
        self._hooks.on_change.append(hook)
        return hook

    def on_release(self, hook: OnRelease) -> OnRelease:
        """Call a function with the reason and the deadline, when this member has to leave."""
        self._hooks.on_release.append(hook)
        return hook

    def report_loss(self, loss: float) -> None:
        """Put the loss into the report."""
        self._engine.reporter.facts.loss = float(loss)

    def evaluating(self) -> contextlib.AbstractContextManager[None]:
        """Say in the report that the program evaluates. Its time is none of `hangSeconds`."""
        return self._during(TrainingState.EVALUATING)

    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Say in the report that the program compiles. Its time is none of `hangSeconds`."""
        return self._during(TrainingState.COMPILING)

    def save(self) -> None:
        """Write a checkpoint now. All members call it at the same step."""
        self._engine.save()

    # ---- inside

    def _during(self, state: TrainingState) -> contextlib.AbstractContextManager[None]:
        return self._engine.reporter.during(state, self._ledger.progress)

    @property
    def _engine(self) -> Engine:
        if self._engine_made is None:
            collectives = self._framework.collectives
            self._engine_made = Engine(
                group=open_group_at(self._place, collectives, self._minimum),
                collectives=collectives,
                learner=self._framework.learner,
                ledger=self._ledger,
                index=self._place.index if self._place else int(os.environ.get("RANK", "0")),
                saver=self._saver,
                hooks=self._hooks,
                hang=hang_watch_of(os.environ) if self._place else None,
                warn=_warn,
            )
            is_scaled = self._scale == "member" and self._lr_rule == "adascale"
            self._engine_made.measures.noise_counts = is_scaled
            self._framework.connect(self._engine_made)
        return self._engine_made

    def _formed(self) -> Generation:
        engine = self._engine
        return engine.now if engine.now is not None else engine.ready()

    @property
    def _progress(self) -> Progress:
        """That of the group, which a new process has to join first to know of it."""
        if not self.is_leaving:
            self._formed()
        return self._ledger.progress

    def _is_over(self, source: SampleSource, epochs: int) -> bool:
        """Whether all epochs are done; a finished epoch gives way to the next one."""
        self._formed()
        ledger, n_samples = self._ledger, source.n_samples
        if n_samples is not None and 0 < n_samples <= ledger.progress.position:
            ledger.progress = ledger.progress.in_next_epoch()
        return n_samples == 0 or ledger.progress.epoch >= epochs

    def _next_batch(
        self, source: SampleSource, batch_size: int, formed: Generation
    ) -> SampleBatch | None:
        size = formed.plan.size
        n_batch = batch_size * (size if self._scale == "member" else 1)
        progress = self._ledger.progress
        source.start_epoch(progress.epoch)
        batch = source.batch(progress.position, n_batch, formed.rank, size)
        if batch is None:
            self._ledger.progress = progress.in_next_epoch()
        else:
            self._engine.reporter.facts.global_batch = n_batch
        return batch

    def _factor(self, size: int, batch_size: int) -> float:
        if self._scale == "global":
            return 1.0
        return rate_factor(
            self._lr_rule,
            size=size,
            base=self._base_size,
            batch=batch_size,
            noise=self._ledger.noise,
        )

    def _say_totals(self, source: SampleSource, batch_size: int, epochs: int) -> None:
        facts = self._engine.reporter.facts
        n_samples = source.n_samples
        facts.total_samples = None if n_samples is None else n_samples * epochs
        if self._scale == "global":
            facts.global_batch = batch_size


def open_group_at(place: Place | None, collectives: Collectives, minimum: int) -> Group:
    """The bus for a member of a job; a group that never changes for any other process."""
    if place is None:
        if JOB_VARIABLE in os.environ:
            # Members that do not know of each other would each train on all of the data.
            _warn(
                "the job gives its programs no members (spec.reporting: true, or swell run"
                " --reporting does): "
                + ("the size stays as it is" if "RANK" in os.environ else "this pod trains alone")
            )
        return fixed_group(os.environ)
    from swell.train.bus import open_group

    return open_group(
        place,
        minimum=minimum,
        meeting_port=collectives.meeting_port,
        on_abort=collectives.abort,
    )


def _warn(message: str) -> None:
    print(f"swell.train: {message}", file=sys.stderr, flush=True)  # noqa: T201 (the program's log)
