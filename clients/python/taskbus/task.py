"""A task as its handler sees it, and what the handler says of its work beside the return value."""
from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

MAX_AMOUNT = 1e15
MIN_AMOUNT = 1e-300  # what is less has an exponent that decoders refuse
MAX_NAME = 128  # characters of a provider or model


@dataclass(frozen=True, slots=True)
class OutputRef:
    """Where an output is that is too large for a message: return it in place of the output.

    uri     at most 2,048 characters of printable ASCII without spaces
    sha256  of its bytes, 64 hexadecimal digits in lower case
    size    in bytes
    """

    uri: str
    sha256: str
    size: int

    def valid(self) -> bool:
        return (isinstance(self.uri, str) and re.fullmatch("[!-~]{1,2048}", self.uri) is not None
                and isinstance(self.sha256, str) and re.fullmatch("[0-9a-f]{64}", self.sha256) is not None
                and isinstance(self.size, int) and 0 <= self.size <= MAX_AMOUNT)


class Usage:
    """What a piece of work has cost in LLM quota. It may be added to from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._amounts: dict[str, float] = {}
        self._names: dict[str, str] = {}

    def add(self, names: dict[str, str], amounts: dict[str, float]) -> None:
        """Adds amounts; what is no number, or not above 0, counts as 0. A later name replaces an earlier one."""
        with self._lock:
            for key, amount in amounts.items():
                if not math.isnan(amount) and amount >= MIN_AMOUNT:
                    self._amounts[key] = min(self._amounts.get(key, 0) + amount, MAX_AMOUNT)
            for key, name in names.items():
                clean = "".join(c if c.isprintable() else " " for c in name)[:MAX_NAME]
                if clean:
                    self._names[key] = clean

    def wire(self) -> dict[str, Any] | None:
        """The usage of a task.result; None if nothing was said."""
        with self._lock:
            return {**self._amounts, **self._names} or None


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One task as this agent got it."""

    id: str  # chosen by the producer: the key for making work idempotent
    type: str
    payload: dict[str, Any]
    priority: int  # 0 low, 1 normal, 2 high, 3 critical
    trace_id: str  # belongs into every log line about the task
    dispatch_id: str  # this attempt to have the task done
    attempt: int  # from 1
    assigned_at: datetime | None  # by the coordinator's clock
    timeout: float  # seconds that the handler may work
    deadline: datetime | None  # when its outcome is of no more use
    maybe_duplicate: bool  # an earlier copy may have been begun, here or elsewhere, before a fault
    traceparent: str = ""  # the W3C trace context as the producer sent it
    tracestate: str = ""
    description: str = ""
    explanation: str = ""  # why this agent was chosen, for people
    provider: str = ""  # chosen of the task's alternatives, with the key to use (openai@main)
    model: str = ""
    # Set when the handler should return soon: the task was withdrawn, its time is up, or the agent stops. A coroutine
    # is cancelled besides; a handler in a thread has to look.
    cancelled: threading.Event = field(default_factory=threading.Event)
    usage: Usage = field(default_factory=Usage)

    def used(self, *, requests: float = 0, input_tokens: float = 0, output_tokens: float = 0, cost_usd: float = 0,
             provider: str = "", model: str = "") -> None:
        """Adds to what the work has cost; it counts whatever the outcome is."""
        self.usage.add({"provider": provider, "model": model}, {
            "requests": requests, "input_tokens": input_tokens, "output_tokens": output_tokens, "cost_usd": cost_usd})
