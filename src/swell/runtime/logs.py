"""Structured logs: one event name per fact, with fields, and nothing secret.

The loggers use the standard library's, so a program that configures nothing sees warnings on
stderr only. While a controller reconciles a key, every line names the pass that it belongs to.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TextIO, cast

if "rich" in sys.modules:
    import structlog
else:
    # structlog loads rich, where that is installed, for tracebacks in colours: longer than all else
    # of it takes, and no log of ours has them.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]

from swell.api.meta import Key
from swell.api.times import format_micro_time
from swell.runtime.clock import Clock

Logger = structlog.stdlib.BoundLogger
LogEvent = MutableMapping[str, object]

# A field whose name contains one of these never shows its value.
SECRET_PARTS = (
    "token",
    "password",
    "secret",
    "authorization",
    "credential",
    "key-data",
    "key_data",
)


@dataclass(frozen=True, slots=True)
class ReconcilePass:
    """One look of a controller at one key; `number` counts the passes of this process."""

    controller: str
    key: Key
    number: int


# What the current task reconciles. Tasks that it starts, such as writes, inherit it.
reconcile_pass: ContextVar[ReconcilePass | None] = ContextVar("reconcile_pass", default=None)


def get_logger(name: str) -> Logger:
    wrapped = structlog.wrap_logger(
        logging.getLogger(name), wrapper_class=structlog.stdlib.BoundLogger
    )
    return cast("Logger", wrapped)


def configure(
    *,
    level: str = "info",
    json: bool = False,
    clock: Clock,
    stream: TextIO | None = None,
    handler: logging.StreamHandler[TextIO] | None = None,
) -> None:
    """Set up logging for the whole program. Calling it again replaces the former set-up.

    A program with a log file hands in the handler that writes it.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_pass,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        _Timestamp(clock),
        hide_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = handler or logging.StreamHandler(stream or sys.stderr)
    out = handler.stream
    render: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                render,
            ],
        )
    )
    root = logging.getLogger()
    for former in [h for h in root.handlers if getattr(h, "from_swell", False)]:
        root.removeHandler(former)
    handler.from_swell = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(level.upper())


class _Timestamp:
    """Adds the time of the injected clock, so that simulated programs log simulated time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, _logger: object, _method: str, event: LogEvent) -> LogEvent:
        event["time"] = format_micro_time(self._clock.now())
        return event


def _add_pass(_logger: object, _method: str, event: LogEvent) -> LogEvent:
    """Add the fields of the current pass, those that other controllers' logs have."""
    current = reconcile_pass.get()
    if current is not None:
        event.setdefault("controller", current.controller)
        event.setdefault("namespace", current.key.namespace)
        event.setdefault("name", current.key.name)
        event["reconcileID"] = f"{current.controller}-{current.number}"
    return event


def hide_secrets(_logger: object, _method: str, event: LogEvent) -> LogEvent:
    """Replace the values of fields with a secret name, at any depth."""
    return {name: _hidden(name, value) for name, value in event.items()}


def _hidden(name: str, value: object) -> object:
    if any(part in name.lower() for part in SECRET_PARTS):
        return "[hidden]"
    if isinstance(value, Mapping):
        return {inner: _hidden(str(inner), held) for inner, held in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden("", held) for held in value]
    return value
