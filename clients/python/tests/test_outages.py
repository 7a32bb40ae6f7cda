"""Connections that end, queues that are not there: with a real coordinator and a real broker."""
from __future__ import annotations

import asyncio
import os

from rig import PATIENCE, Case, channel, close_connections, eventually, serving
from taskbus import Client, Task, TaskFailed


class Outages(Case):
    async def test_a_connection_that_ends_interrupts_no_work(self) -> None:
        agent, begun, go_on = self.agent(), [], asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> str:
            begun.append(task.id)
            await go_on.wait()
            return "done"

        async with Client() as bus, serving(agent):
            done = [await self.submit(bus) for _ in range(3)]
            await eventually("all have begun", lambda: len(begun) == 3)
            await close_connections()
            go_on.set()
            for each in done:
                self.assertEqual(await each.result(PATIENCE), "done")
            await close_connections()
            self.assertEqual(await (await self.submit(bus)).result(PATIENCE), "done")
        self.assertEqual(len(begun), 4)

    async def test_results_of_the_time_without_a_broker_go_home(self) -> None:
        agent, begun, go_on = self.agent(), [], asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> str:
            begun.append(task.id)
            await go_on.wait()
            return "done"

        async with Client() as bus, serving(agent):
            done = await self.submit(bus)
            await eventually("it has begun", lambda: begun)
            await close_connections()
            await eventually("the session has ended", lambda: any("another try" in line for line in self.logs.lines))
            go_on.set()  # perhaps in the pause, perhaps after it
            self.assertEqual(await done.result(PATIENCE), "done")
        self.assertEqual(len(begun), 1)

    async def test_an_agent_that_is_not_listed_waits(self) -> None:
        self.agent_id += "-unlisted"
        agent = self.agent()
        agent.handles("any")(print)
        async with serving(agent):
            await eventually("it waits", lambda: any("cannot consume" in line for line in self.logs.lines))
        self.assertFalse(any("the session has ended" in line for line in self.logs.lines))

    async def test_an_agent_may_have_no_more_rights_than_it_needs(self) -> None:
        self.agent_id = "py-39"  # docs/howto/write-an-agent.md has the permissions of its user
        agent, begun = self.agent(url=os.environ["TASKBUS_TEST_AGENT_URL"]), asyncio.Event()

        @agent.handles("any")
        async def work(task: Task) -> str:
            begun.set()
            await asyncio.sleep(task.payload["seconds"])
            return "done"

        async with Client() as bus, serving(agent):
            self.assertEqual(await (await self.submit(bus, {"seconds": 0})).result(PATIENCE), "done")
            begun.clear()
            done = await self.submit(bus, {"seconds": PATIENCE})
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await done.cancel()
            with self.assertRaises(TaskFailed):
                await done.result(PATIENCE / 2)
        self.assertEqual(done.outcome, "cancelled")

    async def test_a_second_process_waits_for_the_first(self) -> None:
        first, second = self.agent(), self.agent()
        first.handles("any")(lambda task: "first")
        second.handles("any")(lambda task: "second")
        async with Client() as bus:
            async with serving(first):
                self.assertEqual(await (await self.submit(bus)).result(PATIENCE), "first")
                other = asyncio.create_task(second.serve())
                await eventually("it waits", lambda: any("another process" in line for line in self.logs.lines))
            self.assertEqual(await (await self.submit(bus)).result(PATIENCE), "second")
            second.stop()
            await asyncio.wait_for(other, PATIENCE)
