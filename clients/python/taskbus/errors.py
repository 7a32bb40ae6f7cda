"""What a handler can raise to say how its task ended, and what a producer is told of a task that failed."""
from __future__ import annotations

from typing import Any

MAX_RETRY_AFTER = 24 * 60 * 60.0  # seconds


class Reject(Exception):
    """The agent has not begun and must not: another should have the task. No failure of the task."""


class Retry(Exception):
    """The agent had begun and could not go on: the task is tried again, by another agent if there is one. A failure of
    the task on this agent; a task that fails so on several is parked as poisoned."""

    after = 0.0  # seconds


class RetryAfter(Retry):
    """Retry for a fault that passes in about so many seconds, as a provider's rate limit: another agent may have the
    task at once, this one no sooner (as far as the coordinator can hold the task: 10 minutes). No failure."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"to be tried again in {seconds:g} s")
        # What is no number is as good as no time.
        self.after = min(seconds, MAX_RETRY_AFTER) if seconds > 0 else 0.0


class Fail(Exception):
    """The task has failed, and no other try can mend that. The text is for people and goes into the event, the answer
    and the log: it must quote no payload and no secret."""


class TaskFailed(Exception):
    """The task of a producer did not succeed.

    reason       for people
    reason_code  for programs: a reason of assignment.failed; "failed" or "cancelled" by the word of its agent
    task_id
    agent        the agent that had it at the end; "" if none ended it
    answer       the whole message as it came
    """

    def __init__(self, task_id: str, reason: str, reason_code: str, agent: str, answer: dict[str, Any]) -> None:
        super().__init__(f"{task_id}: {reason_code}: {reason}" if reason else f"{task_id}: {reason_code}")
        self.task_id, self.reason, self.reason_code = task_id, reason, reason_code
        self.agent, self.answer = agent, answer
