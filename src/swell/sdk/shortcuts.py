"""Offers `swell.submit`, `sweep` and `watch`, on the cluster that the command line would choose.

As `swell run` does, they start the embedded cluster if it is the one to use and does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from swell.sdk.cluster import JobChange, Work, connect
from swell.sdk.job import JobHandle
from swell.sdk.options import JobKeywords
from swell.sdk.sweep import Rows, SweepHandle


def submit(
    work: Work,
    *,
    name: str = "",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    strict: bool = False,
    **options: Unpack[JobKeywords],
) -> JobHandle:
    """Submit a manifest, a command or a function, as `Cluster.submit` does.

    >>> import swell
    >>> def train(rate):
    ...     print("rate", rate)
    >>> job = swell.submit(train, args=[0.1], name="trains")
    >>> job.wait(check=True).phase
    'Succeed'
    >>> [line.text for line in job.logs()]
    ['rate 0.1']
    """
    cluster = connect(start=True)
    return cluster.submit(work, name=name, args=args, kwargs=kwargs, strict=strict, **options)


def sweep(
    work: str | Sequence[str] | Callable[..., object],
    rows: Rows,
    *,
    name: str = "",
    parallel: int | None = None,
    **options: Unpack[JobKeywords],
) -> SweepHandle:
    """Submit one job for every row of parameters, as `Cluster.sweep` does.

    >>> import swell
    >>> def square(x):
    ...     print(x * x)
    >>> sweep = swell.sweep(square, [{"x": 2}, {"x": 3}], name="squares").wait()
    >>> [line.text for line in sweep.logs()]
    ['4', '9']
    """
    cluster = connect(start=True)
    return cluster.sweep(work, rows, name=name, parallel=parallel, **options)


def watch(labels: str = "") -> Iterator[JobChange]:
    """Yield every job and every change of one, as `Cluster.watch` does."""
    return connect().watch(labels)
