from swell import aio as aio
from swell import train as train
from swell.sdk.cluster import ClusterHandle as Cluster
from swell.sdk.cluster import JobChange as JobChange
from swell.sdk.cluster import connect as connect
from swell.sdk.errors import SwellError as SwellError
from swell.sdk.errors import SwellWarning as SwellWarning
from swell.sdk.job import JobEvent as JobEvent
from swell.sdk.job import JobHandle as Job
from swell.sdk.job import PrintedLine as PrintedLine
from swell.sdk.shortcuts import submit as submit
from swell.sdk.shortcuts import sweep as sweep
from swell.sdk.shortcuts import watch as watch
from swell.sdk.sweep import SweepHandle as Sweep

__version__: str
__all__ = [
    "Cluster",
    "Job",
    "JobChange",
    "JobEvent",
    "PrintedLine",
    "Sweep",
    "SwellError",
    "SwellWarning",
    "__version__",
    "aio",
    "connect",
    "submit",
    "sweep",
    "train",
    "watch",
]
