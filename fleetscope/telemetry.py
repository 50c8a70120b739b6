"""Structured logs: one JSON object a line on stderr, with whatever the caller put into ``extra``."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """Time (Unix seconds), level, logger, message and the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {"time": round(record.created, 3), "level": record.levelname.lower(),
                                "logger": record.name, "message": record.getMessage()}
        line.update({k: v for k, v in vars(record).items() if k not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class PlainFormatter(logging.Formatter):
    """One line for people: what happened, where, and why."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        where = [str(getattr(record, name)) for name in ("unit", "step", "table", "error") if hasattr(record, name)]
        return ": ".join(["fleetscope", record.getMessage(), *where])


def log_plain() -> None:
    """Warnings of this project on stderr. Single dead letters are left out: they are counted, stored and shown."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter())
    handler.addFilter(lambda record: record.getMessage() != "dead letter")
    for name in ("fleetscope", "processors", "ingest", "simulator"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False


def log_json(level: int = logging.INFO) -> None:
    """Send logs of this project as JSON lines to stderr; libraries only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # What libraries meet is raised, and told once, as our own errors.
    for library in ("clickhouse_connect", "kafka", "urllib3"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for name in ("fleetscope", "processors", "ingest", "simulator"):
        logging.getLogger(name).setLevel(level)
