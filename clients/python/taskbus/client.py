"""The client: submits tasks, and gets what was found out."""
from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aio_pika.abc import AbstractIncomingMessage

from . import wire
from .errors import TaskFailed
from .link import FAULTS, Consumer, Denied, Link, Missing, Taken, broker_url, describe, pauses, translated
from .log import log_of
from .memory import Memory
from .task import OutputRef
from .work import SETTLE_WITHIN, Lost, Refusal

PRIORITIES = {"low": 0, "normal": 1, "high": 2, "critical": 3}
PREFETCH = 2_000  # answers on their way; more than are kept unclaimed
MAX_UNCLAIMED = 1_000  # answers to tasks that this process has not submitted
MAX_ANSWERED = 10_000  # task ids, to know an answer that comes again
EXPIRES = 600_000  # milliseconds for which the queue of a client without a name outlives its connection
RETRY_REFUSED = 1.0  # seconds
LOOK_EVERY = 5.0  # seconds


class Done:
    """What becomes of a task that was submitted."""

    def __init__(self, client: Client, task_id: str) -> None:
        self.task_id = task_id
        self._client = client
        self._future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        """Reports whether the answer is there."""
        return self._future.done()

    async def result(self, timeout: float | None = None) -> Any:
        """The output of the task; an OutputRef if it is elsewhere; None if there is none.

        TaskFailed: it did not succeed. TimeoutError: there was no answer within so many seconds; the task goes on, and
        result may be asked again. ConnectionError: the client was closed first.
        """
        async with asyncio.timeout(timeout):
            m = await asyncio.shield(self._future)
        if not m:
            raise ConnectionError("the client was closed before the answer came")
        if m.get("outcome") == "succeeded":
            ref = m.get("output_ref")
            return OutputRef(ref["uri"], ref["sha256"], ref["size"]) if ref else m.get("output")
        raise TaskFailed(self.task_id, str(m.get("reason") or m.get("error") or ""),
                         str(m.get("reason_code") or self.outcome), self.agent, m)

    async def cancel(self, reason: str = "") -> None:
        """Withdraws the task: if an agent has it, that decides. The result tells what became of it."""
        await self._client.cancel(self.task_id, reason)

    @property
    def answer(self) -> dict[str, Any]:
        """The whole message, task.completed or assignment.failed; {} before it is there."""
        return self._future.result() if self._future.done() else {}

    @property
    def outcome(self) -> str:
        """succeeded, failed or cancelled; "" before the answer is there."""
        m = self.answer
        return "failed" if "reason_code" in m else str(m.get("outcome", ""))

    @property
    def agent(self) -> str:
        """The agent that ended it; "" if none did."""
        return str(self.answer.get("agent_id", ""))

    @property
    def usage(self) -> dict[str, Any]:
        """What the work has cost, as far as the agent tells."""
        return dict(self.answer.get("usage") or {})

    @property
    def attempts(self) -> int:
        """How often it was given to an agent."""
        m = self.answer
        return int(m.get("attempt") or m.get("attempts") or 0)


@dataclass(eq=False, slots=True)
class _Pending:
    """A task without an answer."""

    done: Done
    queue: str
    body: bytes
    properties: dict[str, Any]
    confirmed: bool = False  # the broker has it


class Client:
    """A producer. Use it with async with:

        async with Client() as bus:
            done = await bus.submit("web-research", {"q": "..."}, priority="high")
            print(await done.result(timeout=60), done.agent, done.outcome, done.usage, done.attempts)

    Answers come to one queue of the client's own. It outlives a lost connection by ten minutes: none is lost by that.
    With a name it is the durable queue answers.<user>.<name>, which outlives the process: submit a task again under its
    id, with the same content, and its answer is there. One client at a time may have a name.

    url      of the broker; default RABBITMQ_URL
    connect_within  seconds for the first connection, after which entering raises ConnectionError
    """

    def __init__(self, url: str | None = None, *, name: str = "", connect_within: float = 30.0) -> None:
        if name and not re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", name):
            raise ValueError("name: give 1 to 128 letters, digits and . _ : -")
        self._url, self._name, self._connect_within = broker_url(url), name, connect_within
        self._reply_to = f"answers.{self._url.user or 'guest'}.{name or uuid.uuid4().hex}"
        self._exchange = wire.EXCHANGE_TASKS
        self._log = log_of("client", reply_to=self._reply_to)
        self._pending: dict[str, _Pending] = {}
        self._unclaimed: Memory[tuple[dict[str, Any], AbstractIncomingMessage]] = Memory(MAX_UNCLAIMED)
        self._answered: Memory[bool] = Memory(MAX_ANSWERED)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._link: Link | None = None
        self._fault = ""  # the latest
        self._linked, self._closing = asyncio.Event(), asyncio.Event()
        self._sessions: asyncio.Task[None] | None = None  # None: not open

    async def __aenter__(self) -> Client:
        self._sessions = asyncio.create_task(self._run())
        try:
            await asyncio.wait_for(self._linked.wait(), self._connect_within)
        except BaseException as e:
            await self.close()
            if isinstance(e, asyncio.TimeoutError):
                raise ConnectionError(f"no connection to the broker: {self._fault}") from None
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection. Tasks go on; who waits for one gets ConnectionError."""
        self._closing.set()
        if self._sessions:
            await asyncio.wait([self._sessions])
        for p in self._pending.values():
            if not p.done.done():
                p.done._future.set_result({})
        self._pending.clear()
        for each in self._tasks:
            each.cancel()

    async def submit(self, task_type: str, payload: dict[str, Any], *, task_id: str = "",
                     priority: str | int = "normal", timeout: float | None = None, deadline: datetime | None = None,
                     trace_id: str = "", traceparent: str = "", tracestate: str = "", **fields: Any) -> Done:
        """Submits a task and returns when the broker has it, however long that takes.

        task_id      by which copies are known; default a new one
        priority     low, normal, high, critical, or 0 to 3
        timeout      seconds that an agent may work
        deadline     when the outcome is of no more use
        fields       the others of task.assign by their names, such as group, labels, required_capabilities
        """
        task_id = task_id or uuid.uuid4().hex
        if not wire.valid_id(task_id):
            raise ValueError("task_id: give 1 to 128 letters, digits and . _ : -, beginning with a letter or digit")
        rank = PRIORITIES.get(priority, -1) if isinstance(priority, str) else priority
        if rank not in PRIORITIES.values():
            raise ValueError("priority: give low, normal, high, critical, or 0 to 3")
        if not isinstance(payload, dict):
            raise TypeError("payload: give a dict")
        message: dict[str, Any] = {
            "message_type": "task.assign", "task_id": task_id, "task_type": task_type, "priority": rank, **fields}
        if timeout is not None:
            message["timeout_seconds"] = timeout
        if deadline is not None:
            message["deadline"] = deadline.astimezone().isoformat()
        properties: dict[str, Any] = {"type": "task.assign", "message_id": task_id, "reply_to": self._reply_to}
        if trace_id:
            message["correlation_id"] = properties["correlation_id"] = trace_id
        if traceparent:
            properties["headers"] = {"traceparent": traceparent, **({"tracestate": tracestate} if tracestate else {})}
        body = wire.encode({**message, "payload": payload})
        return await self._submit(task_id, _Pending(
            Done(self, task_id), "task.assign.high" if rank >= PRIORITIES["high"] else "task.assign", body, properties))

    async def _submit(self, task_id: str, p: _Pending) -> Done:
        if known := self._pending.get(task_id):
            if known.body != p.body:
                raise ValueError(f"the task {task_id} is submitted already, with other content")
            p = known
        elif kept := self._unclaimed.pop(task_id):
            p.done._future.set_result(kept[0])
            self._ack(kept[1])
            return p.done
        self._pending[task_id] = p
        self._answered.pop(task_id)
        try:
            await self._publish(p)
        except BaseException:
            if not p.confirmed and self._pending.get(task_id) is p:
                del self._pending[task_id]
            raise
        return p.done

    async def _publish(self, p: _Pending) -> None:
        """Publishes until the broker has the task, or its answer is there."""
        told = False
        while not p.done.done():
            link = await self._session()
            try:
                await link.publish(self._exchange, p.queue, p.body, p.properties)
                p.confirmed = True
                return
            except Refusal as e:
                if not told:
                    self._log.warning("the broker does not take a task for %s (%s): is there a coordinator? Trying "
                                      "again", p.queue, e, extra={"task_id": p.done.task_id})
                told = True
                await asyncio.sleep(RETRY_REFUSED)
            except Lost:
                await link.lost.wait()  # a second copy does no harm

    async def cancel(self, task_id: str, reason: str = "") -> None:
        """Withdraws a task by its id."""
        message = {"message_type": "task.cancel", "task_id": task_id}
        if reason:
            message["reason"] = wire.clean(reason)
        while True:
            link = await self._session()
            key = f"task.request.{link.user}" if self._exchange else "task.request"
            try:
                return await link.publish(self._exchange, key, wire.encode(message), {"type": "task.cancel"})
            except Lost:
                await link.lost.wait()

    async def map(self, task_type: str, payloads: Iterable[dict[str, Any]], *, limit: int = 100,
                  result_timeout: float | None = None, return_exceptions: bool = False, **options: Any) -> list[Any]:
        """Submits a task for each payload, at most `limit` without an answer at a time, and returns their outputs in
        the order of the payloads. The first exception ends it, and the tasks that are submitted go on; with
        return_exceptions each stands in its place. options are those of submit."""
        work = enumerate(payloads)
        results: dict[int, Any] = {}

        async def one_by_one() -> None:
            for i, payload in work:
                try:
                    done = await self.submit(task_type, payload, **options)
                    results[i] = await done.result(result_timeout)
                except Exception as e:
                    if not return_exceptions:
                        raise
                    results[i] = e

        workers = [asyncio.create_task(one_by_one()) for _ in range(limit)]
        try:
            await asyncio.gather(*workers)
        finally:
            for each in workers:
                each.cancel()
        return [results[i] for i in sorted(results)]

    # Sessions

    async def _session(self) -> Link:
        """The current session, as soon as there is one."""
        while True:
            if self._closing.is_set():
                raise ConnectionError("the client is closed")
            if self._sessions is None:
                raise RuntimeError("the client is not open: use async with")
            if self._link and not self._link.lost.is_set():
                return self._link
            linked, closing = (asyncio.create_task(e.wait()) for e in (self._linked, self._closing))
            try:
                await asyncio.wait([linked, closing], return_when=asyncio.FIRST_COMPLETED)
            finally:
                linked.cancel()
                closing.cancel()

    async def _run(self) -> None:
        first = True
        async for pause in pauses(self._closing):
            try:
                link = await Link.open(self._url, "taskbus-client/" + (self._name or self._reply_to))
            except FAULTS as e:
                self._fault = describe(e)
                self._log.warning("no session with the broker (%s); another try in %.1f s", self._fault, pause)
                continue
            try:
                consumer = await self._listen(link, first)
                first = False
                self._link = link
                self._linked.set()
                await self._watch(link, consumer)
                if not self._closing.is_set():
                    self._log.warning("the session has ended (%s); another try in %.1f s", link.why, pause)
                elif not self._name:
                    with contextlib.suppress(Missing, Taken, Denied, *FAULTS):
                        await translated(consumer.queue.delete(if_unused=False, if_empty=False))
            except (Missing, Taken, Denied, *FAULTS) as e:
                self._fault = describe(e)
                self._log.warning("cannot consume the queue for answers (%s); another try in %.1f s",
                                  self._fault, pause)
            finally:
                self._linked.clear()
                self._link = None
                self._unclaimed = Memory(MAX_UNCLAIMED)  # they are the broker's again
                await link.close()

    async def _listen(self, link: Link, first: bool) -> Consumer:
        """Consumes the queue for answers. Where that was lost, what is not answered is submitted again: a coordinator
        answers copies to their new queue."""
        # What may write to the default exchange may write to any queue; a producer's user need not.
        self._exchange = wire.EXCHANGE_TASKS if await link.has_exchange(wire.EXCHANGE_TASKS) else ""
        channel = await link.channel()
        try:
            queue = await translated(channel.declare_queue(self._reply_to, passive=True))
            lost = False
        except Missing:
            channel = await link.channel()
            queue = await translated(channel.declare_queue(
                self._reply_to, durable=True, arguments=None if self._name else {"x-expires": EXPIRES}))
            lost = not first
        consumer = Consumer(channel, queue, self._take)
        await consumer.begin(prefetch=PREFETCH, exclusive=True)
        if lost:
            self._log.warning("the queue for answers was lost; %d tasks are submitted again", len(self._pending))
            for p in self._pending.values():
                if p.confirmed:
                    self._spawn(self._publish(p))
        return consumer

    async def _watch(self, link: Link, consumer: Consumer) -> None:
        """Returns when the session has ended, or the client is to."""
        waits = [asyncio.create_task(event.wait()) for event in (link.lost, consumer.ended, self._closing)]
        try:
            while not any(each.done() for each in waits):
                await asyncio.wait(waits, timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
                if not any(each.done() for each in waits):
                    await consumer.look()
        finally:
            for each in waits:
                each.cancel()

    # Answers

    def _take(self, message: AbstractIncomingMessage) -> None:
        try:
            m = wire.decode(message.body)
        except ValueError:
            m = {}
        task_id = m.get("task_id")
        if m.get("message_type") not in ("task.completed", "assignment.failed") or not isinstance(task_id, str):
            self._log.warning("a message that is no answer came to the queue for answers")
        elif p := self._pending.pop(task_id, None):
            self._answered.add(task_id, True)
            if not p.done.done():
                p.done._future.set_result(m)
        elif self._name and not self._answered.get(task_id):
            for gone, (_, oldest) in self._unclaimed.add(task_id, (m, message)):
                self._log.warning("an answer that nothing has asked for is given up", extra={"task_id": gone})
                self._ack(oldest)
            return
        self._ack(message)

    def _ack(self, message: AbstractIncomingMessage) -> None:
        async def ack() -> None:
            with contextlib.suppress(*FAULTS):  # the session has ended: it comes again
                async with asyncio.timeout(SETTLE_WITHIN):
                    await message.ack()

        self._spawn(ack())

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
