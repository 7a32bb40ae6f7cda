"""The messages of Taskbus: JSON in and out, and the checks that an agent makes of what it is sent."""
from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from .task import Task

EXCHANGE_AGENTS = "taskbus.agents"
EXCHANGE_TASKS = "taskbus"
EXCHANGE_CONTROL = "taskbus.control"
MAX_TEXT = 2048  # bytes of a text for people
LONGEST = 365 * 24 * 3600.0  # seconds; any longer time-out is taken for this
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_DISPATCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,159}")
_TRACE = re.compile(r"[ -~]{1,255}")


def valid_id(text: object) -> bool:
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def valid_agent_id(text: str) -> bool:
    return valid_id(text) and text != "status" and not text.endswith(".control")


def valid_trace(text: object) -> bool:
    return isinstance(text, str) and _TRACE.fullmatch(text) is not None


def encode(value: object) -> bytes:
    """JSON in UTF-8. TypeError, ValueError or RecursionError: the value has none."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def decode(body: bytes) -> dict[str, Any]:
    """ValueError: it is no JSON object."""
    try:
        value = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def now() -> datetime:
    return datetime.now(timezone.utc)


def read_time(text: object) -> datetime | None:
    """A time of a message; None if it is none."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Makes a text fit for messages and logs: control characters become spaces, what goes beyond limit bytes is cut."""
    text = "".join(" " if unicodedata.category(c) == "Cc" or c in BIDI else c for c in text[:limit + 1])
    raw = text.encode(errors="replace")
    if len(raw) <= limit:
        return raw.decode()
    ellipsis = "…".encode()
    return raw[:limit - len(ellipsis)].decode(errors="ignore") + ellipsis.decode()


def life_of(task_id: str, dispatch_id: str) -> int:
    """When the task of a dispatch was accepted, in milliseconds since 1970; 0 if its id does not say that."""
    if not dispatch_id.startswith(task_id + "."):
        return 0
    parts = dispatch_id[len(task_id) + 1:].split(".")
    if len(parts) != 2:
        return 0
    try:
        return int(parts[0], 36)
    except ValueError:
        return 0


class Refused(Exception):
    """A message is no dispatch for this agent. names are those of its task, for the result; empty if it has none."""

    def __init__(self, reason: str, names: dict[str, Any]) -> None:
        super().__init__(reason)
        self.names = names


# The fields that a dispatch must have, each with its type.
_REQUIRED: dict[str, type | tuple[type, ...]] = {
    "task_id": str, "assigned_agent": str, "correlation_id": str, "task_type": str, "dispatch_id": str,
    "payload": dict, "priority": int, "attempt": int, "timeout_seconds": (int, float),
}


def read_dispatch(body: bytes, headers: Mapping[str, Any], redelivered: bool, agent_id: str) -> Task:
    """The task of a task.dispatch; raises Refused."""
    try:
        m = decode(body)
    except ValueError:  # whose text may quote the message
        raise Refused("this message is no task.dispatch: no JSON object", {}) from None
    names: dict[str, Any] = {}
    if valid_id(m.get("task_id")):
        names = {"task_id": m["task_id"], "agent_id": agent_id, "correlation_id": m["task_id"]}
        if valid_trace(m.get("correlation_id")):
            names["correlation_id"] = m["correlation_id"]
        if isinstance(m.get("dispatch_id"), str) and _DISPATCH_ID.fullmatch(m["dispatch_id"]):
            names["dispatch_id"] = m["dispatch_id"]
    if m.get("message_type") != "task.dispatch":
        raise Refused("this message is no task.dispatch", names)
    if m.get("message_version", 1) != 1:
        raise Refused("this agent knows version 1 of task.dispatch only", names)
    for key, kind in _REQUIRED.items():
        if not isinstance(m.get(key), kind) or isinstance(m[key], bool):
            raise Refused(f"this message is no task.dispatch: {key} is missing or of another type", names)
    if len(names) < 4:
        raise Refused("this message is no task.dispatch: an id of it is none", names)
    if m["assigned_agent"] != agent_id:
        raise Refused(f"this dispatch is for the agent {clean(m['assigned_agent'], 128)}; it came to {agent_id}", names)

    def text(key: str, of: Mapping[str, Any] = m) -> str:
        return value if isinstance(value := of.get(key), str) else ""

    return Task(
        id=m["task_id"], type=m["task_type"], payload=m["payload"], priority=m["priority"],
        trace_id=m["correlation_id"], dispatch_id=m["dispatch_id"], attempt=m["attempt"],
        assigned_at=read_time(m.get("assignment_time")),
        timeout=min(float(m["timeout_seconds"]), LONGEST), deadline=read_time(m.get("deadline")),
        maybe_duplicate=redelivered or marked(headers),
        traceparent=text("traceparent", headers), tracestate=text("tracestate", headers),
        description=text("description"), explanation=text("explanation"), provider=text("provider"),
        model=text("model"))


def marked(headers: Mapping[str, Any]) -> bool:
    """Reports whether a coordinator marks a dispatch: an earlier copy may have reached an agent."""
    return headers.get("x-taskbus-maybe-duplicate") is True
