"""The agent with a real coordinator and a real broker: every way in which a task can end."""
from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

import aio_pika

from rig import PATIENCE, SECRET, Case, channel, eventually, ready_in, serving, state_of
from taskbus import Client, Fail, Reject, Retry, RetryAfter, Task, TaskFailed


class Outcomes(Case):
    async def test_output_usage_and_trace_context(self) -> None:
        agent, tasks = self.agent(), []

        @agent.handles("any")
        async def work(task: Task) -> dict[str, Any]:
            tasks.append(task)
            task.used(requests=1, input_tokens=1200, provider="openai", model="small")
            return {"héllo": ["wörld", SECRET, None, 1.5], "𝄞": task.payload["q"]}

        async with Client() as bus, serving(agent):
            done = await self.submit(bus, {"q": "wie groß? " + SECRET}, priority="high", trace_id="trace-1",
                                     traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", timeout=20)
            self.assertEqual(await done.result(PATIENCE), {
                "héllo": ["wörld", SECRET, None, 1.5], "𝄞": "wie groß? " + SECRET})
        self.assertEqual((done.agent, done.outcome, done.attempts), (self.agent_id, "succeeded", 1))
        self.assertEqual(done.usage, {"requests": 1, "input_tokens": 1200, "provider": "openai", "model": "small"})
        t = tasks[0]
        self.assertEqual((t.id, t.trace_id, t.timeout, t.priority), (done.task_id, "trace-1", 20, 2))
        self.assertTrue(t.traceparent.startswith("00-0af7651916cd43dd8448eb211c80319c-"))
        self.assertEqual(await state_of(self.agent_id), "offline")  # it has said so when it left

    async def test_what_is_given_back_comes_again(self) -> None:
        agent, begun = self.agent(), []

        @agent.handles("any")
        def work(task: Task) -> int:
            begun.append((task.payload["by"], task.attempt, time.monotonic()))
            if task.attempt == 1:
                raise {"Reject": Reject("not now"), "Retry": Retry("away"), "RetryAfter": RetryAfter(3),
                       "KeyError": KeyError(SECRET)}[task.payload["by"]]
            return task.attempt

        async with Client() as bus, serving(agent):
            kinds = ("Reject", "Retry", "RetryAfter", "KeyError")
            all_done = [await self.submit(bus, {"by": by}) for by in kinds]
            for done in all_done:
                self.assertGreater(await done.result(PATIENCE), 1)
        first, second = (next(at for by, n, at in begun if by == "RetryAfter" and (n == 1) == is_first)
                         for is_first in (True, False))
        self.assertGreater(second - first, 2.9)

    async def test_fail_is_final(self) -> None:
        agent = self.agent()

        @agent.handles()  # whatever the type is
        async def work(task: Task) -> None:
            task.used(requests=1)
            raise Fail("there is no such page")

        async with Client() as bus, serving(agent):
            done = await self.submit(bus)
            with self.assertRaises(TaskFailed) as caught:
                await done.result(PATIENCE)
        e = caught.exception
        self.assertEqual((e.reason, e.reason_code, e.agent, done.outcome, done.usage),
                         ("there is no such page", "failed", self.agent_id, "failed", {"requests": 1}))

    async def test_an_output_that_is_too_large_fails_with_words(self) -> None:
        agent = self.agent()

        @agent.handles("any")
        async def work(task: Task) -> str:
            return "ä" * int(task.payload["n"])

        async with Client() as bus, serving(agent):
            fits = await self.submit(bus, {"n": 2047})  # 2 bytes each, and 2 quotes: 4,096, max_output_bytes
            above = await self.submit(bus, {"n": 2048})
            self.assertEqual(await fits.result(PATIENCE), "ä" * 2047)
            with self.assertRaises(TaskFailed) as caught:
                await above.result(PATIENCE)
        self.assertIn("4098 bytes, more than the 4096 allowed", caught.exception.reason)

    async def test_time_is_up(self) -> None:
        agent, ends = self.agent(), []

        @agent.handles("any")
        async def work(task: Task) -> None:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                ends.append(task.cancelled.is_set())
                raise

        async with Client() as bus, serving(agent):
            done = await self.submit(bus, timeout=1)
            with self.assertRaises(TaskFailed) as caught:
                await done.result(PATIENCE)
        self.assertEqual((ends, caught.exception.reason_code), ([True], "failed"))
        self.assertRegex(caught.exception.reason, r"^ran out of time after 1[0-9.]* s: CancelledError in sleep")

    async def test_a_task_that_runs_is_withdrawn(self) -> None:
        agent, begun = self.agent(), asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> None:
            begun.set()
            await asyncio.sleep(PATIENCE)

        async with Client() as bus, serving(agent):
            done = await self.submit(bus)
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await done.cancel("the incident is over")
            with self.assertRaises(TaskFailed) as caught:
                await done.result(PATIENCE / 2)
        self.assertEqual((caught.exception.reason_code, caught.exception.reason),
                         ("cancelled", "the task was withdrawn: the incident is over"))

    async def test_a_second_copy(self) -> None:
        agent, begun, go_on = self.agent(), [], asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> str:
            begun.append(task)
            await go_on.wait()
            return "once"

        async with Client() as bus, serving(agent), channel() as ch:
            done = await self.submit(bus)
            await eventually("it has begun", lambda: begun)
            t = begun[0]
            assert t.assigned_at
            copy = aio_pika.Message(json.dumps({
                "message_type": "task.dispatch", "task_id": t.id, "assigned_agent": self.agent_id, "queue": "agent",
                "correlation_id": t.trace_id, "assignment_time": t.assigned_at.isoformat(), "task_type": t.type,
                "payload": {}, "priority": 1, "timeout_seconds": 60, "dispatch_id": t.dispatch_id, "attempt": 1,
            }).encode(), headers={"x-taskbus-maybe-duplicate": True})
            queue = "agent." + self.agent_id
            await ch.default_exchange.publish(copy, queue)
            while await ready_in(queue):
                await asyncio.sleep(0.05)
            go_on.set()
            self.assertEqual(await done.result(PATIENCE), "once")
            await ch.default_exchange.publish(copy, queue)
            await eventually("the copy of what has ended is known",
                             lambda: any("its result goes out again" in line for line in self.logs.lines))
        self.assertEqual((len(begun), await ready_in(queue)), (1, 0))


# The process of an agent that works for as long as its task says.
PROGRAM = """
import sys, time
from taskbus import Agent
agent = Agent(sys.argv[1], slots=2, interval=1)
@agent.handles("any")
def work(task):
    print("begun", flush=True)
    time.sleep(task.payload["seconds"])
    return "finished"
agent.run()
"""


class Processes(Case):
    async def start(self) -> asyncio.subprocess.Process:
        p = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, self.agent_id,
                                                 stdout=asyncio.subprocess.PIPE)

        def end() -> None:
            if p.returncode is None:
                p.kill()

        self.addCleanup(end)
        return p

    async def test_sigterm_lets_it_finish(self) -> None:
        p = await self.start()
        async with Client() as bus:
            done = await self.submit(bus, {"seconds": 2})
            assert p.stdout
            self.assertEqual(await asyncio.wait_for(p.stdout.readline(), PATIENCE), b"begun\n")
            p.send_signal(signal.SIGTERM)
            self.assertEqual(await asyncio.wait_for(p.wait(), PATIENCE), 0)
            self.assertEqual(await done.result(PATIENCE), "finished")
            self.assertEqual(await ready_in("agent." + self.agent_id), 0)  # it has acknowledged it
        self.assertEqual(await state_of(self.agent_id), "offline")

    async def test_a_second_signal_ends_it(self) -> None:
        p = await self.start()
        async with Client() as bus:
            await self.submit(bus, {"seconds": 2 * PATIENCE})
            assert p.stdout
            await asyncio.wait_for(p.stdout.readline(), PATIENCE)
            p.send_signal(signal.SIGINT)
            await asyncio.sleep(0.5)
            self.assertIsNone(p.returncode)
            p.send_signal(signal.SIGINT)
            self.assertEqual(await asyncio.wait_for(p.wait(), 10), -signal.SIGINT)


class Arguments(Case):
    async def test_what_cannot_be_used(self) -> None:
        os.environ.setdefault("RABBITMQ_URL", "")
        for options in ({"slots": 0}, {"interval": 100}, {"drain_timeout": -1}):
            with self.assertRaises(ValueError):
                self.agent(**options)
        with self.assertRaises(ValueError):
            await self.agent().serve()  # no handler
        agent = self.agent(url="http://user:" + SECRET + "@host")
        agent.handles("any")(print)
        with self.assertRaises(ValueError) as caught:
            await agent.serve()
        self.assertNotIn(SECRET, str(caught.exception))
        with self.assertRaises(ValueError):
            agent.handles("any")(print)
