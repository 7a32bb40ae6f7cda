"""How a task ended: from what its handler said, and why it had to end, to the fields of a task.result."""
from __future__ import annotations

import asyncio
import enum
import os
import traceback
from dataclasses import dataclass
from typing import Any

from . import wire
from .errors import Fail, Reject, Retry
from .task import OutputRef, Usage

# No coordinator takes an output of more bytes (max_output_bytes), and RabbitMQ would close the channel far above that.
MAX_OUTPUT = 8 << 20


class Cause(enum.Enum):
    """Why a handler has to end. The value is the grace: seconds after which its result goes out without it."""

    WITHDRAWN = 5.0
    OUT_OF_TIME = 0.5
    STOPPING = 1.0


CAUSES = {Cause.WITHDRAWN: "the task was withdrawn", Cause.OUT_OF_TIME: "the task's time is up",
          Cause.STOPPING: "the agent is stopping"}


@dataclass(frozen=True, slots=True)
class Words:
    """What a handler said: done, or an outcome with a text."""

    done: bool = False
    outcome: str = "failed"
    attempted: bool = False
    text: str = ""
    after: float = 0.0  # seconds
    output: bytes | None = None  # JSON
    ref: OutputRef | None = None


SILENT = Words(text="the handler has not returned")


def said(value: object) -> Words:
    """What a handler says by its return value."""
    if value is None:
        return Words(done=True)
    if isinstance(value, OutputRef):
        if not value.valid():
            return Words(text="the OutputRef has no URI in ASCII, no SHA-256 in lower case, or no size")
        return Words(done=True, ref=value)
    try:
        output = wire.encode(value)
    except Exception as e:  # any: the value's methods are the handler's code; and the text may quote the value
        return Words(text=f"the output cannot be written as JSON ({type(e).__name__})")
    if len(output) > MAX_OUTPUT:
        return Words(text=f"the output has {len(output)} bytes, more than any coordinator takes ({MAX_OUTPUT})")
    return Words(done=True, output=output)


def raised(e: BaseException) -> Words:
    """What a handler says by an exception.

    Reject, Retry and Fail are its own words. Any other exception is no answer but an accident, as a panic is in Go: the
    task is tried again, elsewhere if possible, and it counts as a failure here, so that what fails everywhere ends as
    poisoned. (An error that a handler in Go returns is a decision, as Fail is here.) The text of an accident may quote
    the payload: the result has its type and the place.
    """
    if isinstance(e, (Reject, Retry, Fail)):
        text = wire.clean(str(e)) or f"{type(e).__name__} without a text"
        if isinstance(e, Fail):
            return Words(text=text)
        return Words(outcome="rejected", attempted=isinstance(e, Retry), text=text, after=getattr(e, "after", 0.0))
    return Words(outcome="rejected", attempted=True, text=wire.clean(f"{type(e).__name__} in {place(e)}"))


def place(e: BaseException) -> str:
    """The innermost function of an exception's way with file and line: no values, which may be a payload's."""
    frames = traceback.extract_tb(e.__traceback__)
    if not frames:
        return "the handler"
    return f"{frames[-1].name} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def way(e: BaseException) -> str:
    """The way of an exception, innermost function first, as far as 32 functions."""
    return "; ".join(f"{f.name} {f.filename}:{f.lineno}" for f in reversed(traceback.extract_tb(e.__traceback__)[-32:]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a task.result says of the end."""

    outcome: str
    text: str = ""
    attempted: bool = False
    after: float = 0.0  # seconds
    usage: dict[str, Any] | None = None
    output: bytes | None = None
    ref: OutputRef | None = None
    took: float = 0.0  # seconds; 0: nothing was begun


def judge(words: Words, cause: Cause | None, reason: str, usage: Usage, took: float) -> Verdict:
    """Work that was done in spite of a cause to end has succeeded; else the cause outweighs the handler's own words,
    which are usually nothing but its consequence. reason is that of a withdrawal."""
    spent = usage.wire()
    if words.done:
        return Verdict("succeeded", usage=spent, output=words.output, ref=words.ref, took=took)
    if cause is None:
        return Verdict(words.outcome, words.text, words.attempted, words.after, spent, took=took)
    if cause is Cause.OUT_OF_TIME:
        return Verdict("failed", f"ran out of time after {took:.3g} s: {words.text}", usage=spent, took=took)
    text = withdrawn(reason) if cause is Cause.WITHDRAWN else CAUSES[cause]
    if words is SILENT:  # the work may still go on; first, because the reason may be as long as a text can be
        text = f"{SILENT.text}: {text}"
    return Verdict("cancelled" if cause is Cause.WITHDRAWN else "rejected", wire.clean(text), usage=spent, took=took)


def withdrawn(reason: str) -> str:
    """The text of a withdrawal."""
    return wire.clean(f"{CAUSES[Cause.WITHDRAWN]}: {reason}" if reason else CAUSES[Cause.WITHDRAWN])


def rejection(reason: str) -> Verdict:
    """The verdict on a dispatch that was not begun."""
    return Verdict("rejected", wire.clean(reason))


def result(names: dict[str, Any], v: Verdict, ended_at: str) -> bytes:
    """The task.result of a dispatch. What names it comes first, so that a coordinator that does not take the output can
    tell whose it was; the output last, byte for byte."""
    m: dict[str, Any] = {"message_type": "task.result", **names, "outcome": v.outcome, "timestamp": ended_at}
    if v.attempted:
        m["attempted"] = True
    if v.after > 0:
        m["retry_after_ms"] = round(v.after * 1000)
    if v.took > 0:
        m["duration_ms"] = round(v.took * 1000, 3)
    if v.text:
        m["error"] = wire.clean(v.text)
    if v.usage:
        m["usage"] = v.usage
    if v.ref:
        m["output_ref"] = {"uri": v.ref.uri, "sha256": v.ref.sha256, "size": v.ref.size}
    body = wire.encode(m)
    return body if v.output is None else body[:-1] + b',"output":' + v.output + b"}"


def heard(task: asyncio.Task[Words]) -> Words:
    """The words of a coroutine that has ended; it may have been cancelled before it began."""
    if task.cancelled():
        return raised(asyncio.CancelledError())
    e = task.exception()
    return task.result() if e is None else raised(e)
