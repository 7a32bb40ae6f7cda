"""The client with a real coordinator and a real broker."""
from __future__ import annotations

import asyncio
import uuid
from typing import Any

import aio_pika

from rig import PATIENCE, Case, channel, close_connections, eventually, ready_in, serving
from taskbus import Client, Fail, Task, TaskFailed


class Clients(Case):
    async def test_a_task_that_nothing_can_do(self) -> None:
        async with Client() as bus:
            done = await bus.submit("no-such-type", {})
            with self.assertRaises(TaskFailed) as caught:
                await done.result(PATIENCE)
        e = caught.exception
        self.assertEqual((e.reason_code, e.agent, done.outcome, done.attempts), ("unknown_task_type", "", "failed", 0))
        self.assertIn("no-such-type", e.reason)

    async def test_no_answer_in_time_ends_nothing(self) -> None:
        agent, go_on = self.agent(), asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> str:
            await go_on.wait()
            return "late"

        async with Client() as bus, serving(agent):
            done = await self.submit(bus)
            with self.assertRaises(TimeoutError):
                await done.result(0.2)
            self.assertFalse(done.done())
            go_on.set()
            self.assertEqual(await done.result(PATIENCE), "late")

    async def test_a_withdrawn_task_that_no_agent_has(self) -> None:
        async with Client() as bus:
            done = await self.submit(bus)  # its agent is not there
            await done.cancel("never mind")
            with self.assertRaises(TaskFailed) as caught:
                await done.result(PATIENCE / 3)
        self.assertEqual(caught.exception.reason_code, "cancelled")

    async def test_map_keeps_the_order_and_the_limit(self) -> None:
        agent, now, most = self.agent(), 0, 0

        @agent.handles("any")
        async def work(task: Task) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            if task.payload["n"] == 7:
                raise Fail("seven")
            return int(task.payload["n"]) * 2

        async with Client() as bus, serving(agent):
            got = await bus.map("any", ({"n": n} for n in range(20)), limit=3, return_exceptions=True,
                                required_capabilities=[self.agent_id])
            self.assertEqual([g for g in got if not isinstance(g, TaskFailed)], [2 * n for n in range(20) if n != 7])
            self.assertIsInstance(got[7], TaskFailed)
            self.assertLessEqual(most, 3)  # and the agent has 4 slots
            with self.assertRaises(TaskFailed):
                await bus.map("any", [{"n": 7}], required_capabilities=[self.agent_id])

    async def test_the_same_task_twice(self) -> None:
        agent, begun = self.agent(), []

        @agent.handles("any")
        async def work(task: Task) -> int:
            begun.append(task.id)
            await asyncio.sleep(0.5)
            return 1

        async with Client() as bus, serving(agent):
            one = await self.submit(bus, {"n": 1}, task_id="twice-" + self.agent_id)
            two = await self.submit(bus, {"n": 1}, task_id="twice-" + self.agent_id)
            with self.assertRaises(ValueError):
                await self.submit(bus, {"n": 2}, task_id="twice-" + self.agent_id)
            self.assertEqual((await one.result(PATIENCE), await two.result(PATIENCE), len(begun)), (1, 1, 1))

    async def test_answers_that_come_again_or_are_none(self) -> None:
        agent = self.agent()
        agent.handles("any")(lambda task: 42)
        async with Client() as bus, serving(agent), channel() as ch:
            done = await self.submit(bus)
            self.assertEqual(await done.result(PATIENCE), 42)
            for body in (b'{"message_type":"task.completed","task_id":"%s","outcome":"failed"}' % done.task_id.encode(),
                         b'{"message_type":"task.completed","task_id":"unknown"}', b"{}", b"no JSON"):
                await ch.default_exchange.publish(aio_pika.Message(body), bus._reply_to)
            self.assertEqual(await (await self.submit(bus)).result(PATIENCE), 42)
            self.assertEqual(await done.result(), 42)
            await eventually("all are acknowledged", lambda: not bus._tasks)

    async def test_a_name_keeps_the_answers(self) -> None:
        agent = self.agent()
        agent.handles("any")(lambda task: task.payload["n"])
        name, task_id = "keeps-" + uuid.uuid4().hex, uuid.uuid4().hex
        options: dict[str, Any] = {"task_id": task_id, "required_capabilities": [self.agent_id]}
        queue = Client(name=name)._reply_to
        async with Client(name=name) as bus:
            await bus.submit("any", {"n": 42}, **options)
        async with Client() as other, serving(agent):
            self.assertEqual(await (await self.submit(other, {"n": 1})).result(PATIENCE), 1)
            while await ready_in(queue) == 0:
                await asyncio.sleep(0.05)
            async with Client(name=name) as bus:  # as if the process had been started again
                await eventually("the answer is here", lambda: len(bus._unclaimed))
                done = await bus.submit("any", {"n": 42}, **options)
                self.assertEqual(await done.result(PATIENCE), 42)
                await eventually("it is acknowledged", lambda: not bus._tasks)
        self.assertEqual(await ready_in(queue), 0)

    async def test_a_queue_for_answers_that_is_lost(self) -> None:
        agent, go_on = self.agent(), asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> int:
            await go_on.wait()
            return 42

        async with Client() as bus, serving(agent):
            done = await self.submit(bus)
            async with channel() as ch:
                await ch.queue_delete(bus._reply_to)
            await eventually("it is there again", lambda: any("was lost" in line for line in self.logs.lines))
            go_on.set()
            self.assertEqual(await done.result(PATIENCE), 42)

    async def test_answers_across_lost_connections(self) -> None:
        agent = self.agent()

        @agent.handles("any")
        async def work(task: Task) -> int:
            await asyncio.sleep(0.05)
            return int(task.payload["n"])

        async with Client() as bus, serving(agent):
            results = asyncio.create_task(bus.map("any", ({"n": n} for n in range(100)), limit=20,
                                                  required_capabilities=[self.agent_id]))
            await asyncio.sleep(0.5)
            await close_connections()
            self.assertEqual(await asyncio.wait_for(results, PATIENCE), list(range(100)))

    async def test_what_cannot_be_submitted(self) -> None:
        async with Client() as bus:
            for options in ({"priority": "urgent"}, {"priority": 4}, {"task_id": "no good"}):
                with self.assertRaises(ValueError):
                    await bus.submit("any", {}, **options)  # type: ignore[arg-type]
            with self.assertRaises(TypeError):
                await bus.submit("any", [1])  # type: ignore[arg-type]
            with self.assertRaises(TypeError):
                await bus.submit("any", {"x": object()})
            queue = bus._reply_to
            done = await self.submit(bus)
        with self.assertRaises(ConnectionError):
            await done.result()
        with self.assertRaises(ConnectionError):
            await bus.submit("any", {})
        with self.assertRaises(aio_pika.exceptions.ChannelNotFoundEntity):
            await ready_in(queue)  # it is deleted with its client

    async def test_no_broker(self) -> None:
        with self.assertRaises(RuntimeError):
            await Client().submit("any", {})
        with self.assertRaises(ConnectionError):
            async with Client("amqp://guest:guest@127.0.0.1:1/", connect_within=0.5):
                pass
