"""What tests with a broker and a coordinator share. tests/clients starts both, and says in the environment where they
are; its fleet has the agents py-0, py-1, ..., each with a capability of its name."""
from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import unittest
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aio_pika

from taskbus import Agent, Client, Done

PATIENCE = 60.0  # seconds for what should happen at once
logging.getLogger("asyncio").setLevel(logging.ERROR)  # the loop of a test tells of every slow step

SECRET = "forty-two and a secret"  # tests/clients looks for it in the coordinator's log


class Logs(logging.Handler):
    """Keeps what is logged, with all fields."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {vars(record)}")


class Case(unittest.IsolatedAsyncioTestCase):
    """A test with an agent of its own."""

    _used = 0

    async def asyncSetUp(self) -> None:
        self.agent_id = f"py-{Case._used}"
        Case._used += 1
        self.logs = Logs()
        for name in ("taskbus", "aio_pika", "aiormq"):
            logging.getLogger(name).addHandler(self.logs)
        logging.getLogger("taskbus").setLevel(logging.DEBUG)

    async def asyncTearDown(self) -> None:
        for name in ("taskbus", "aio_pika", "aiormq"):
            logging.getLogger(name).removeHandler(self.logs)
        password = os.environ["RABBITMQ_URL"].split("@")[0].rsplit(":", 1)[1]
        for line in self.logs.lines:
            self.assertNotIn(SECRET, line)
            self.assertNotIn(password, line)

    def agent(self, **options: Any) -> Agent:
        options = {"interval": 1, "slots": 4, **options}
        return Agent(self.agent_id, **options)

    async def submit(self, bus: Client, payload: dict[str, Any] | None = None, **options: Any) -> Done:
        """Submits a task for this test's agent."""
        return await bus.submit("any", payload or {}, required_capabilities=[self.agent_id], **options)


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[None]:
    """Has an agent serve meanwhile, and drain at the end."""
    task = asyncio.create_task(agent.serve())
    try:
        yield
    finally:
        agent.stop()
        await asyncio.wait_for(task, PATIENCE)


async def eventually(what: str, holds: Callable[[], Any]) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not in time: {what}")


async def close_connections() -> None:
    """Ends all connections of the tests' user, as an operator would; the coordinator has another user."""
    def close() -> None:
        for _ in range(3):  # a connection that ends by itself meanwhile makes rabbitmqctl give up
            done = subprocess.run(
                [os.environ["TASKBUS_TEST_ROOT"] + "/scripts/broker.sh", "ctl", "--dir",
                 os.environ["TASKBUS_TEST_BROKER_DIR"], "close_all_user_connections", os.environ["TASKBUS_TEST_USER"],
                 "closed by a test"], capture_output=True, text=True)
            if done.returncode == 0:
                return
        raise AssertionError(done.stderr)
    await asyncio.to_thread(close)


async def status() -> dict[str, Any]:
    """What the coordinator's /status says."""
    def read() -> Any:
        with urllib.request.urlopen(os.environ["TASKBUS_TEST_HTTP"] + "/status", timeout=PATIENCE) as answer:
            return json.load(answer)
    return dict(await asyncio.to_thread(read))


async def state_of(agent_id: str) -> str:
    return next(str(a["state"]) for a in (await status())["agents"] if a["id"] == agent_id)


@asynccontextmanager
async def channel() -> AsyncIterator[Any]:
    """A bare channel."""
    connection = await aio_pika.connect(os.environ["RABBITMQ_URL"])
    try:
        yield await connection.channel()
    finally:
        await connection.close()


async def ready_in(queue: str) -> int:
    """How many messages are ready in a queue."""
    async with channel() as ch:
        return int((await ch.declare_queue(queue, passive=True)).declaration_result.message_count)
