"""The agent at work, without a broker and in virtual time: what it does of a dispatch, and of what comes again."""
from __future__ import annotations

import asyncio
import json
import logging
import threading
import unittest
from collections.abc import Callable, Coroutine
from typing import Any

import virtual
from taskbus import Fail, Task
from taskbus.log import log_of
from taskbus.work import Handler, Lost, Refusal, Work

logging.getLogger("taskbus").addHandler(logging.NullHandler())


class Session:
    """A broker that keeps what is reported. answer says what it does instead: wait, or raise."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.answer: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def report(self, key: str, body: bytes, properties: dict[str, str]) -> None:
        assert key == "task.result.a1" and properties["type"] == "task.result"
        if self.answer:
            await self.answer()
        self.reports.append(json.loads(body))

    def told(self) -> list[tuple[str, str]]:
        return [(m.get("dispatch_id", ""), m["outcome"]) for m in self.reports]


class Message:
    def __init__(self) -> None:
        self.settled = ""

    async def ack(self) -> None:
        self.settled += "ack"

    async def nack(self, *, requeue: bool) -> None:
        self.settled += "requeue" if requeue else "back"


class Rig:
    """An agent a1 with a session, and what is sent to it."""

    def __init__(self, handler: Handler, slots: int = 2) -> None:
        self.work = Work("a1", slots, {"build": handler}, log_of("test"))
        self.connect()

    def connect(self) -> Session:
        self.session, self.work.origin = Session(), object()
        self.work.attach(self.session)
        return self.session

    def give(self, dispatch_id: str = "t-1.z.1", *, headers: dict[str, Any] | None = None, redelivered: bool = False,
             **changes: Any) -> Message:
        task_id = dispatch_id.split(".")[0]
        m = {"message_type": "task.dispatch", "task_id": task_id, "assigned_agent": "a1", "correlation_id": "trace",
             "assignment_time": "2026-11-21T09:47:33Z", "task_type": "build", "priority": 1, "timeout_seconds": 100,
             "dispatch_id": dispatch_id, "attempt": 1, "payload": {}, **changes}
        message = Message()
        self.work.receive(self.work.origin, message, json.dumps(m).encode(), headers or {}, redelivered)
        return message


MARKED = {"x-taskbus-maybe-duplicate": True}


class AtWork(unittest.TestCase):
    def test_a_result_is_confirmed_before_the_message_is_acknowledged(self) -> None:
        async def main() -> None:
            confirm = asyncio.Event()
            rig = Rig(answer_42)
            rig.session.answer = lambda: flag(confirm)
            message = rig.give()
            await asyncio.sleep(1)
            self.assertEqual(message.settled, "")
            confirm.set()
            await asyncio.sleep(1)
            self.assertEqual((message.settled, rig.session.told()), ("ack", [("t-1.z.1", "succeeded")]))
            self.assertEqual(rig.session.reports[0]["output"], 42)
            self.assertTrue(await rig.work.idle(1))

        virtual.run(main())

    def test_what_is_given_back(self) -> None:
        async def main() -> None:
            rig = Rig(fails_by(ZeroDivisionError()))
            message, unknown = rig.give(), rig.give("t-2.z.1", task_type="other")
            other, none = rig.give("t-3.z.1", assigned_agent="a2"), rig.give("t-4.z.1", task_id=7)
            await asyncio.sleep(1)
            self.assertEqual([m.settled for m in (message, unknown, other, none)], ["back"] * 4)
            self.assertEqual([(m["task_id"], m["outcome"], m.get("attempted")) for m in rig.session.reports], [
                ("t-2", "rejected", None), ("t-3", "rejected", None), ("t-1", "rejected", True)])

        virtual.run(main())

    def test_no_more_run_than_there_are_slots(self) -> None:
        async def main() -> None:
            begun = []

            async def handler(task: Task) -> None:
                begun.append(task.id)
                await asyncio.sleep(10)

            rig = Rig(handler)
            for i in range(3):
                rig.give(f"t-{i}.z.1")
            await asyncio.sleep(9)
            status = rig.work.status("i")
            self.assertEqual((begun, status["active_task_ids"], status["available_capacity"], status["current_load"]),
                             (["t-0", "t-1"], ["t-0", "t-1"], 0, 1))
            await asyncio.sleep(2)
            self.assertEqual((begun[2:], rig.work.status("i")["active_task_ids"]), (["t-2"], ["t-2"]))

        virtual.run(main())

    def test_a_coroutine_is_cancelled_when_its_time_is_up(self) -> None:
        async def main() -> None:
            rig = Rig(sleep_on)
            rig.give(timeout_seconds=5)
            await asyncio.sleep(4.9)
            self.assertEqual(rig.session.told(), [])
            await asyncio.sleep(0.2)
            self.assertEqual(rig.session.told(), [("t-1.z.1", "failed")])
            self.assertRegex(rig.session.reports[0]["error"], r"^ran out of time after 5 s: CancelledError in sleep")

        virtual.run(main())

    def test_a_deadline_that_has_passed(self) -> None:
        async def main() -> None:
            rig = Rig(sleep_on)
            message = rig.give(deadline="2020-01-01T00:00:00Z")
            await asyncio.sleep(1)
            self.assertEqual((rig.session.told(), message.settled), ([("t-1.z.1", "rejected")], "back"))

        virtual.run(main())

    def test_what_does_not_return_is_not_waited_for_and_keeps_its_slot(self) -> None:
        async def main() -> None:
            hang = asyncio.Event()
            rig = Rig(hangs_until(hang), slots=1)
            message = rig.give()
            await asyncio.sleep(1)
            rig.work.cancel("t-1", "", "the incident is over")
            rig.give("t-2.z.1")
            await asyncio.sleep(4.9)  # of 5 s
            self.assertEqual(rig.session.told(), [])
            await asyncio.sleep(0.2)
            self.assertEqual((rig.session.told(), message.settled), ([("t-1.z.1", "cancelled")], "ack"))
            self.assertEqual(rig.session.reports[0]["error"],
                             "the handler has not returned: the task was withdrawn: the incident is over")
            again = rig.give("t-1.z.2")  # never beside itself
            await asyncio.sleep(1)
            self.assertEqual((again.settled, rig.work.status("i")["active_task_ids"]), ("back", ["t-1"]))
            hang.set()
            await asyncio.sleep(1)
            self.assertEqual(rig.session.told()[1:], [("t-1.z.2", "rejected"), ("t-2.z.1", "succeeded")])

        virtual.run(main())

    def test_a_withdrawal_that_comes_first(self) -> None:
        async def main() -> None:
            rig = Rig(answer_42)
            rig.work.cancel("t-1", "t-1.z.1", "")
            rig.work.cancel("t-2", "", "over")
            for dispatch_id in ("t-1.z.2", "t-1.z.1", "t-2.z.1", "t-2.y.1"):
                rig.give(dispatch_id)
                await asyncio.sleep(1)
            self.assertEqual(rig.session.told(), [("t-1.z.2", "succeeded"), ("t-1.z.1", "cancelled"), (
                "t-2.z.1", "cancelled"), ("t-2.y.1", "succeeded")])  # one that names no dispatch is good for one

        virtual.run(main())


class Again(unittest.TestCase):
    def test_the_same_message_again_does_not_begin_twice(self) -> None:
        async def main() -> None:
            calls: list[str] = []
            rig = Rig(counting(calls))
            first = rig.give()
            spare = rig.give(redelivered=True)  # by the same channel
            await asyncio.sleep(1)
            self.assertEqual((first.settled, spare.settled), ("", "ack"))
            rig.work.detach()  # the session is lost: the message is the broker's again
            session = rig.connect()
            newest = rig.give(redelivered=True)
            await asyncio.sleep(10)
            self.assertEqual((first.settled, newest.settled, session.told()), ("", "ack", [("t-1.z.1", "succeeded")]))
            self.assertEqual(calls, ["t-1"])

        virtual.run(main())

    def test_a_result_goes_home_in_the_next_session(self) -> None:
        async def main() -> None:
            rig = Rig(answer_42)
            rig.session.answer = lose
            first = rig.give()
            await asyncio.sleep(1)
            rig.work.detach()
            session = rig.connect()
            await asyncio.sleep(1)
            self.assertEqual(session.told(), [("t-1.z.1", "succeeded")])
            late = rig.give(redelivered=True)  # it has ended, and its result is confirmed
            await asyncio.sleep(1)
            self.assertEqual(first.settled, "")  # it was the broker's again
            self.assertEqual((late.settled, session.told()), ("ack", [("t-1.z.1", "succeeded")] * 2))
            self.assertEqual(session.reports[0], session.reports[1])

        virtual.run(main())

    def test_a_refused_result_is_sent_again(self) -> None:
        async def main() -> None:
            rig = Rig(answer_42)
            rig.session.answer = refuse
            message = rig.give()
            await asyncio.sleep(3)
            rig.session.answer = None
            await asyncio.sleep(1)
            self.assertEqual((message.settled, rig.session.told()), ("ack", [("t-1.z.1", "succeeded")]))

        virtual.run(main())

    def test_another_dispatch_of_a_task_that_runs_joins_it(self) -> None:
        async def main() -> None:
            calls: list[str] = []
            rig = Rig(counting(calls))
            first, second = rig.give("t-1.z.1"), rig.give("t-1.z.2")
            await asyncio.sleep(10)
            self.assertEqual((first.settled, second.settled, calls), ("ack", "ack", ["t-1"]))
            self.assertEqual(rig.session.told(), [("t-1.z.2", "succeeded"), ("t-1.z.1", "succeeded")])

        virtual.run(main())

    def test_one_that_was_superseded_while_away_brings_no_result(self) -> None:
        async def main() -> None:
            rig = Rig(counting([]))
            rig.give("t-1.z.1")
            rig.work.detach()
            session = rig.connect()  # the first message went elsewhere, or nowhere
            rig.give("t-1.z.2", headers=MARKED)
            await asyncio.sleep(10)
            self.assertEqual(session.told(), [("t-1.z.2", "succeeded")])
            self.assertTrue(await rig.work.idle(1))

        virtual.run(main())

    def test_another_life_of_a_task_that_runs_is_rejected_meanwhile(self) -> None:
        async def main() -> None:
            rig = Rig(counting([]))
            rig.give("t-1.y.1")
            other = rig.give("t-1.z.1")  # accepted at another time: its producer has used the id again
            await asyncio.sleep(1)
            self.assertEqual((other.settled, rig.session.told()), ("back", [("t-1.z.1", "rejected")]))
            await asyncio.sleep(10)
            rig.give("t-1.z.1")  # neither marked nor delivered again
            await asyncio.sleep(10)
            self.assertEqual(rig.session.told()[1:], [("t-1.y.1", "succeeded"), ("t-1.z.1", "succeeded")])

        virtual.run(main())

    def test_a_copy_of_what_has_ended(self) -> None:
        copies: list[tuple[dict[str, Any], bool]] = [
            ({"redelivered": True}, False), ({"headers": MARKED}, False), ({}, True),
            ({"redelivered": True, "correlation_id": "another"}, True),
            ({"redelivered": True, "assignment_time": "2026-11-21T10:00:00Z"}, True),
            ({"headers": MARKED, "assignment_time": "2026-11-21T10:00:00Z"}, False),
        ]
        for changes, runs in copies:
            async def main() -> None:
                calls: list[str] = []
                rig = Rig(counting(calls))
                rig.give()
                await asyncio.sleep(10)
                again = rig.give(**changes)
                await asyncio.sleep(10)
                self.assertEqual((len(calls), again.settled), (2 if runs else 1, "ack"))
                self.assertEqual(rig.session.told(), [("t-1.z.1", "succeeded")] * 2)

            with self.subTest(changes=changes):
                virtual.run(main())


class Leaving(unittest.TestCase):
    def test_what_runs_may_finish_and_what_waits_goes_back(self) -> None:
        async def main() -> None:
            rig = Rig(counting([]), slots=1)
            running, waiting = rig.give("t-1.z.1"), rig.give("t-2.z.1")
            self.assertEqual(rig.work.drain(), 2)
            late = rig.give("t-3.z.1")
            self.assertEqual(rig.work.status("i")["status"], "offline")
            self.assertFalse(await rig.work.idle(4))  # the handler takes 5 s
            self.assertTrue(await rig.work.idle(2))
            self.assertEqual([m.settled for m in (running, waiting, late)], ["ack", "back", "back"])

        virtual.run(main())

    def test_what_does_not_finish_goes_to_another(self) -> None:
        async def main() -> None:
            rig = Rig(sleep_on)
            message = rig.give()
            await asyncio.sleep(1)
            rig.work.drain()
            rig.work.stop()
            self.assertTrue(await rig.work.idle(1))
            self.assertEqual((message.settled, rig.session.told()), ("back", [("t-1.z.1", "rejected")]))
            self.assertNotIn("attempted", rig.session.reports[0])

        virtual.run(main())


class Threads(unittest.IsolatedAsyncioTestCase):
    """A def runs in a thread of its own, by the clock of the machine."""

    async def test_threads_run_side_by_side(self) -> None:
        both = threading.Barrier(2, timeout=30)

        def handler(task: Task) -> str:
            both.wait()  # broken, and an accident, unless two are here
            return threading.current_thread().name

        rig = Rig(handler)
        rig.give("t-1.z.1")
        rig.give("t-2.z.1")
        self.assertTrue(await rig.work.idle(30))
        self.assertEqual(sorted(m["output"] for m in rig.session.reports), ["taskbus t-1", "taskbus t-2"])

    async def test_a_thread_sees_that_it_is_cancelled(self) -> None:
        begun = threading.Event()

        def handler(task: Task) -> None:
            begun.set()
            if task.cancelled.wait(30):
                raise Fail("stopped")

        rig = Rig(handler)
        rig.give()
        await asyncio.to_thread(begun.wait, 30)
        rig.work.cancel("t-1", "", "over")
        self.assertTrue(await rig.work.idle(30))
        self.assertEqual(rig.session.told(), [("t-1.z.1", "cancelled")])

    async def test_sys_exit_ends_its_task_alone(self) -> None:
        def handler(task: Task) -> None:
            raise SystemExit("secret")

        for each in (handler, fails_by(SystemExit("secret"))):
            rig = Rig(each)
            with self.assertLogs("taskbus.test", "ERROR") as logs:
                rig.give()
                self.assertTrue(await rig.work.idle(30))
            self.assertEqual(rig.session.told(), [("t-1.z.1", "rejected")])
            self.assertTrue(rig.session.reports[0]["attempted"])
            self.assertNotIn("secret", str(rig.session.reports) + str([vars(r) for r in logs.records]))


async def answer_42(task: Task) -> int:
    return 42


async def sleep_on(task: Task) -> None:
    await asyncio.sleep(1e6)


async def lose() -> None:
    raise Lost


async def refuse() -> None:
    raise Refusal("full")


async def flag(event: asyncio.Event) -> None:
    await event.wait()


def fails_by(e: BaseException) -> Handler:
    async def handler(task: Task) -> None:
        raise e
    return handler


def counting(calls: list[str]) -> Handler:
    async def handler(task: Task) -> None:
        calls.append(task.id)
        await asyncio.sleep(5)
    return handler


def hangs_until(event: asyncio.Event) -> Handler:
    async def handler(task: Task) -> None:
        while not event.is_set():
            try:
                await event.wait()
            except asyncio.CancelledError:
                pass
    return handler


if __name__ == "__main__":
    unittest.main()
