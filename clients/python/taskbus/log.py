"""Log lines with fields: the logger taskbus, each line with the agent or client it is of."""
from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any


class Log(logging.LoggerAdapter[logging.Logger]):
    """Adds its own fields to those of each line (which a plain LoggerAdapter replaces)."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def log_of(part: str, **fields: str) -> Log:
    """The log of taskbus.<part>, every line with these fields."""
    return Log(logging.getLogger("taskbus." + part), fields)
