"""Agents and producers of Taskbus.

An agent does tasks, a client submits them and gets what was found out:

    agent = Agent("researcher-1", slots=4)

    @agent.handles("web-research")
    async def research(task: Task) -> dict:
        return {"answer": 42}

    agent.run()

    async with Client() as bus:
        done = await bus.submit("web-research", {"q": "..."})
        print(await done.result(timeout=60))

Both take the broker from RABBITMQ_URL. They never log a payload, an output or a password.
"""
from .agent import Agent
from .client import Client, Done
from .errors import Fail, Reject, Retry, RetryAfter, TaskFailed
from .task import OutputRef, Task, Usage

__all__ = [
    "Agent", "Client", "Done", "Fail", "OutputRef", "Reject", "Retry", "RetryAfter", "Task", "TaskFailed", "Usage",
]
