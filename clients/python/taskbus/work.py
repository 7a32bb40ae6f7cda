"""The agent at work: what it knows of its dispatches, which outlives every session with the broker.

The life of a dispatch: delivered, waiting (a hung handler has its slot), running, ended, result confirmed, settled.
What comes again is recognised: the same dispatch does not begin twice; one that has ended gets its result again;
another dispatch of a task that runs joins that run. All of it runs in one event loop; only handlers have threads.
"""
from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from . import wire
from .errors import Fail, Reject, Retry
from .log import Log
from .memory import Memory
from .task import Task
from .verdict import (
    CAUSES, SILENT, Cause, Verdict, Words, heard, judge, raised, rejection, result, said, way, withdrawn,
)

Handler = Callable[[Task], Any]

LIST_AFTER = 1.0  # seconds that a task runs before a heartbeat of its own lists it
RETRY_REFUSED = 1.0  # seconds after which what the broker has refused is sent again
SETTLE_WITHIN = 5.0  # seconds; aiormq waits for ever where the connection has just ended
COPY_WITHIN = timedelta(hours=1)  # after its end a dispatch may come again as another message
RECALL_FOR = timedelta(hours=1)  # a withdrawal of what has not come is remembered
MAX_REMEMBERED = 10_000
MAX_ENDED_BYTES = 8 << 20
KEPT_TEXT = 512  # bytes of an error that are remembered


class Refusal(Exception):
    """The broker did not take a message."""


class Lost(Exception):
    """The session has ended; what was not confirmed is the next one's."""


class Session(Protocol):
    """A connection to the broker, as far as the work needs it."""

    async def report(self, key: str, body: bytes, properties: dict[str, str]) -> None:
        """Publishes to the exchange of agents and returns when the broker has it; raises Refusal or Lost."""


class Message(Protocol):
    """A delivery that lies with us; of a session that has ended it is the broker's again, and ack and nack raise."""

    async def ack(self) -> None: ...

    async def nack(self, *, requeue: bool) -> None: ...


@dataclass(eq=False, slots=True)
class Dispatch:
    """One attempt to give this agent one task, until the broker has confirmed its result."""

    key: str  # the dispatch id; of a message that cannot be read, one of our own
    names: dict[str, Any]  # what the result repeats of it
    task: Task | None = None  # None: the message cannot be read
    marked: bool = False
    origin: object = None  # the channel by which its message came
    message: Message | None = None  # None: settled
    run: Run | None = None
    superseded: bool = False  # a newer one has joined the run
    verdict: Verdict | None = None
    ended_at: str = ""
    sent_by: Session | None = None

    def about(self) -> dict[str, str]:
        """How it is named in the log."""
        return {"task_id": self.names.get("task_id", ""), "dispatch_id": self.names.get("dispatch_id", ""),
                "trace_id": self.names.get("correlation_id", "")}


@dataclass(eq=False, slots=True)
class Run:
    """One call of a handler, for every dispatch that has joined it, oldest first."""

    task: Task
    dispatches: list[Dispatch]
    began: float = 0.0  # by the loop's clock; 0: waits for a slot
    running: bool = False  # the handler has not returned
    listed: bool = False  # a heartbeat has named it
    verdict: Verdict | None = None
    cause: Cause | None = None  # why it has to end
    reason: str = ""  # of the withdrawal
    coroutine: asyncio.Task[Words] | None = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ending:
    """What is remembered of a dispatch that has ended."""

    verdict: Verdict
    at: datetime
    ended_at: str
    assigned_at: datetime | None
    trace: str

    def size(self) -> int:
        return len(self.verdict.text) + len(self.verdict.output or b"") + len(self.trace)

    def is_of(self, d: Dispatch, task: Task) -> bool:
        """Reports whether a dispatch of that id is the one that ended so: the message that the broker delivers again,
        or one that a coordinator marks. What is neither was submitted anew."""
        if not task.maybe_duplicate or self.trace != task.trace_id:
            return False
        return self.assigned_at == task.assigned_at or d.marked and wire.now() - self.at < COPY_WITHIN


class Work:
    """Begins tasks in at most `slots` slots, and sees each result home."""

    def __init__(self, agent_id: str, slots: int, handlers: dict[str, Handler], log: Log) -> None:
        self.agent_id, self.slots, self._handlers, self._log = agent_id, slots, handlers, log
        self.wake = asyncio.Event()  # a heartbeat is wanted soon
        self.draining = False
        self.origin: object = None  # the channel that consumes: messages of earlier ones are the broker's again
        self._loop = asyncio.get_running_loop()
        self._session: Session | None = None
        self._open: dict[str, Dispatch] = {}  # by key, oldest first
        self._runs: dict[str, Run] = {}  # by task id, until its results are confirmed and the handler has returned
        self._waiting: list[Run] = []
        self._running: dict[Run, None] = {}  # oldest first
        self._ended: Memory[Ending] = Memory(MAX_REMEMBERED, MAX_ENDED_BYTES, Ending.size)
        self._recalled: Memory[tuple[str, datetime]] = Memory(MAX_REMEMBERED)
        self._idle = asyncio.Event()
        self._idle.set()
        self._unread = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = False  # the broker has, in this session

    # Sessions

    def attach(self, session: Session) -> None:
        """Results go to this session, beginning with those that none has brought home."""
        self._session, self._refused = session, False
        for d in list(self._open.values()):
            self._publish(d)

    def detach(self) -> None:
        """Ends what belongs to the session alone: what has not begun will be delivered again, or go elsewhere."""
        self._session = self.origin = None
        self.forget_waiting()

    def forget_waiting(self) -> None:
        for run in self._waiting:
            for d in run.dispatches:
                self._forget(d)
        self._waiting = []

    def receive(self, origin: object, message: Message, body: bytes, headers: Mapping[str, Any],
                redelivered: bool) -> None:
        """Takes a message of the agent's queue, from the channel that consumes it."""
        try:
            task = wire.read_dispatch(body, headers, redelivered, self.agent_id)
        except wire.Refused as refused:
            self._refuse(origin, message, refused)
            return
        if known := self._open.get(task.dispatch_id):
            # The same once more. Where one lies with this channel the new one takes no place of the prefetch.
            if known.origin is origin:
                self._settle(message, False)
            else:
                known.origin, known.message = origin, message
            return
        d = Dispatch(task.dispatch_id, {
            "task_id": task.id, "agent_id": self.agent_id, "correlation_id": task.trace_id,
            "dispatch_id": task.dispatch_id, "attempt": task.attempt,
        }, task, wire.marked(headers), origin, message)
        self._enter(d)
        if not self._recognise(d, task):
            self._admit(d, task)

    def _enter(self, d: Dispatch) -> None:
        self._open[d.key] = d
        self._idle.clear()

    def _refuse(self, origin: object, message: Message, refused: wire.Refused) -> None:
        """Gives a message back that is not for us, with a result where its task can be named."""
        self._log.warning("gave a message back: %s", refused, extra={"task_id": refused.names.get("task_id", "")})
        if not refused.names:
            self._settle(message, True)
            return
        self._unread += 1
        d = Dispatch(f" {self._unread}", refused.names, origin=origin, message=message)  # no id begins with a space
        self._enter(d)
        self._conclude(d, rejection(str(refused)))

    # What comes again

    def _recognise(self, d: Dispatch, task: Task) -> bool:
        """Deals with a dispatch that needs no work of its own, and reports whether it was one."""
        ending = self._ended.get(d.key)
        if ending and ending.is_of(d, task):
            self._log.info("a copy of a dispatch that has ended; its result goes out again", extra=d.about())
            d.verdict, d.ended_at = ending.verdict, ending.ended_at
            self._publish(d)
            return True
        self._ended.pop(d.key)  # from now on copies are of the new one
        run = self._runs.get(task.id)
        recall = self._recall(d)
        if run and run.verdict is None:
            lives = wire.life_of(task.id, d.key), wire.life_of(task.id, run.dispatches[0].key)
            if not d.marked and 0 not in lives and lives[0] != lives[1]:  # its result would not be that of this one
                self._conclude(d, STILL_HERE)
                return True
            self._log.info("the task is in hand under another dispatch; this one joins it", extra=d.about())
            for older in run.dispatches:
                older.superseded = True
            run.dispatches.append(d)
            d.run = run
            if recall is not None:
                self._withdraw(run, recall)
            return True
        if recall is not None:
            self._conclude(d, Verdict("cancelled", withdrawn(recall)))
            return True
        if run and run.verdict and run.verdict.outcome != "rejected" and self._unconfirmed(run):
            d.verdict, d.ended_at = run.verdict, run.dispatches[-1].ended_at  # it has just ended
            self._publish(d)
            return True
        if run and run.running:  # never beside itself
            self._conclude(d, STILL_HERE)
            return True
        return False

    def _unconfirmed(self, run: Run) -> bool:
        return any(self._open.get(d.key) is d for d in run.dispatches)

    def _recall(self, d: Dispatch) -> str | None:
        """The reason of a withdrawal that came before the dispatch; None: there was none. It is good for one."""
        for key in ("dispatch " + d.key, "task " + d.names["task_id"]):
            recall = self._recalled.pop(key)
            if recall and wire.now() - recall[1] < RECALL_FOR:
                return recall[0]
        return None

    def cancel(self, task_id: str, dispatch_id: str, reason: str) -> None:
        """Stops what a task.cancel names, or remembers it for when it comes. What has ended stays as it is."""
        named = [d for d in self._open.values()
                 if d.names["task_id"] == task_id and dispatch_id in ("", d.names.get("dispatch_id"))]
        self._log.info("a task was withdrawn: %s", reason, extra={"task_id": task_id, "dispatch_id": dispatch_id})
        if not named:
            self._recalled.add("dispatch " + dispatch_id if dispatch_id else "task " + task_id, (reason, wire.now()))
        for d in named:
            if d.run:
                self._withdraw(d.run, reason)

    def _withdraw(self, run: Run, reason: str) -> None:
        if run in self._waiting:
            self._waiting.remove(run)
            self._conclude_run(run, Verdict("cancelled", withdrawn(reason)))
        else:
            self._end(run, Cause.WITHDRAWN, reason)

    # Work

    def _admit(self, d: Dispatch, task: Task) -> None:
        """Begins a dispatch, or has it wait for a slot, or gives its verdict."""
        if self.draining:
            self._conclude(d, rejection(CAUSES[Cause.STOPPING]))
            return
        if task.type not in self._handlers and "" not in self._handlers:
            self._conclude(d, rejection(f"this agent has no handler for tasks of the type {task.type}"))
            return
        d.run = Run(task, [d])
        self._runs[task.id] = d.run
        self._waiting.append(d.run)
        self._next()

    def _next(self) -> None:
        """Begins what waits while there are slots: a handler that does not return has its own."""
        while self._waiting and len(self._running) < self.slots:
            run = self._waiting.pop(0)
            limit = run.task.timeout
            if run.task.deadline:
                limit = min(limit, (run.task.deadline - wire.now()).total_seconds())
            if limit > 0:
                self._begin(run, limit)
            else:  # the coordinator is asked once more: its clock counts, and it has a reason code for it
                self._conclude_run(run, TOO_LATE)

    def _begin(self, run: Run, limit: float) -> None:
        handler = self._handlers.get(run.task.type) or self._handlers[""]
        run.began, run.running = self._loop.time(), True
        self._running[run] = None
        run.timers = [self._loop.call_later(limit, self._end, run, Cause.OUT_OF_TIME),
                      self._loop.call_later(LIST_AFTER, self._unlisted, run)]
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):
            run.coroutine = self._loop.create_task(self._call(run, handler))
            run.coroutine.add_done_callback(lambda task: self._returned(run, heard(task)))
            return
        # A daemon: one that does not return must not keep the process from ending.
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._call_here, run, handler), daemon=True,
                         name="taskbus " + run.task.id).start()

    async def _call(self, run: Run, handler: Handler) -> Words:
        try:
            return said(await handler(run.task))
        except GeneratorExit:  # the loop has been closed
            raise
        except BaseException as e:  # a SystemExit would end the loop
            return self._heard_of(run, e)

    def _call_here(self, run: Run, handler: Handler) -> None:
        try:
            words = said(handler(run.task))
        except BaseException as e:
            words = self._heard_of(run, e)
        try:
            self._loop.call_soon_threadsafe(self._returned, run, words)
        except RuntimeError:
            pass  # the loop has been closed

    def _heard_of(self, run: Run, e: BaseException) -> Words:
        if run.cause is None and not isinstance(e, (Reject, Retry, Fail)):  # its text may quote the payload
            self._log.error("the handler ended by an accident: %s", type(e).__name__,
                            extra={**run.dispatches[-1].about(), "stack": way(e)})
        return raised(e)

    def _end(self, run: Run, cause: Cause, reason: str = "") -> None:
        """Has a handler end. The first cause counts."""
        if not run.running or run.cause is not None:
            return
        run.cause, run.reason = cause, reason
        run.task.cancelled.set()
        if run.coroutine:
            run.coroutine.cancel()
        run.timers.append(self._loop.call_later(cause.value, self._overdue, run))

    def _overdue(self, run: Run) -> None:
        if run.verdict is None:
            self._log.error("a handler does not return although its time is over; its slot stays taken",
                            extra=run.dispatches[-1].about())
            self._conclude_run(run, judge(SILENT, run.cause, run.reason, run.task.usage, self._loop.time() - run.began))

    def _returned(self, run: Run, words: Words) -> None:
        """Frees the slot, which the next one that waits gets, and gives the verdict if there is none yet."""
        run.running = False
        del self._running[run]
        for timer in run.timers:
            timer.cancel()
        if run.verdict is None:
            took = max(self._loop.time() - run.began, 1e-6)
            self._conclude_run(run, judge(words, run.cause, run.reason, run.task.usage, took))
        else:
            self._log.info("a handler has returned at last; its slot is free", extra=run.dispatches[-1].about())
            self.wake.set()  # until now its slot was reported as taken
        self._leave(run)
        self._next()

    def _unlisted(self, run: Run) -> None:
        if not run.listed:
            self.wake.set()

    # Results

    def _conclude(self, d: Dispatch, verdict: Verdict) -> None:
        """Gives a dispatch without a run its verdict."""
        d.verdict, d.ended_at = verdict, wire.now().isoformat()
        self._tell(d, verdict)
        self._publish(d)

    def _conclude_run(self, run: Run, verdict: Verdict) -> None:
        """Gives all dispatches of a run its verdict, the newest first: it is what the coordinator waits for."""
        run.verdict = verdict
        at = wire.now().isoformat()
        for d in run.dispatches:
            d.verdict, d.ended_at = verdict, at
        self._tell(run.dispatches[-1], verdict)
        for d in reversed(run.dispatches):
            self._publish(d)

    def _tell(self, d: Dispatch, v: Verdict) -> None:
        level = logging.DEBUG if v.outcome == "succeeded" else logging.INFO
        self._log.log(level, "task %s: %s", v.outcome, v.text, extra={**d.about(), "took": v.took})

    def _publish(self, d: Dispatch) -> None:
        """Sends the result of a dispatch in the current session, once; without one, attach will see to it."""
        session = self._session
        if not session or not d.verdict or d.sent_by is session or self._open.get(d.key) is not d:
            return
        if d.superseded and d.origin is not self.origin:
            self._over(d)  # the newest brings the result; should this one come again, it is known
            return
        d.sent_by = session
        self._spawn(self._send(session, d, d.verdict))

    async def _send(self, session: Session, d: Dispatch, verdict: Verdict) -> None:
        body = result(d.names, verdict, d.ended_at)
        properties = {"type": "task.result", "message_id": d.names.get("dispatch_id", ""),
                      "correlation_id": d.names["correlation_id"]}
        while True:
            try:
                await session.report("task.result." + self.agent_id, body, properties)
                break
            except Refusal as e:
                self.tell_refusal(e)
                await asyncio.sleep(RETRY_REFUSED)
            except Lost:
                return  # the next session sends it
        if self._open.get(d.key) is d:
            message, d.message = d.message, None
            self._over(d)
            if message and d.origin is self.origin:  # else it is the broker's again
                self._settle(message, verdict.outcome == "rejected")
        if d.run and d.run.running:
            self.wake.set()  # the coordinator takes the slot for free now

    def tell_refusal(self, e: Refusal) -> None:
        if not self._refused:
            self._log.warning("the broker does not take what this agent reports (%s): are its streams bound to the "
                              "exchange %s? A coordinator sees to that. Trying again", e, wire.EXCHANGE_AGENTS)
        self._refused = True

    def _settle(self, message: Message, give_back: bool) -> None:
        async def settle() -> None:
            try:
                async with asyncio.timeout(SETTLE_WITHIN):
                    # Not basic.reject, which makes RabbitMQ 4.3 mark the next dispatch as delivered before.
                    await (message.nack(requeue=False) if give_back else message.ack())
            except Exception as e:  # the session has ended: the message is the broker's again
                self._log.debug("a message was not settled: %s", type(e).__name__)

        self._spawn(settle())

    def _over(self, d: Dispatch) -> None:
        """Takes a dispatch that has ended out of the open ones. Should its message come again, it is known."""
        self._forget(d)
        if d.task and d.verdict:
            v = d.verdict
            kept = replace(v, text=wire.clean(v.text, KEPT_TEXT))
            self._ended.add(d.key, Ending(kept, wire.now(), d.ended_at, d.task.assigned_at, d.task.trace_id))

    def _forget(self, d: Dispatch) -> None:
        self._open.pop(d.key, None)
        if d.run:
            self._leave(d.run)
        if not self._open:
            self._idle.set()

    def _leave(self, run: Run) -> None:
        """Lets the task run anew, if nothing is left of this run of it."""
        if self._runs.get(run.task.id) is run and not run.running and not self._unconfirmed(run):
            del self._runs[run.task.id]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What the agent says of itself, and its end

    def status(self, instance_id: str) -> dict[str, Any]:
        """The agent.status of this moment. It lists a task if and only if it is older than the task's result, or the
        handler goes on in spite of that."""
        active = len(self._running)
        for run in self._running:
            run.listed = True
        return {
            "message_type": "agent.status", "agent_id": self.agent_id, "instance_id": instance_id,
            "status": "offline" if self.draining else "ready", "current_load": active / self.slots,
            "active_tasks": active, "available_capacity": self.slots - active, "max_concurrent_tasks": self.slots,
            "active_task_ids": [run.task.id for run in self._running], "timestamp": wire.now().isoformat()}

    def drain(self) -> int:
        """Takes nothing more and gives back what waits; returns how many dispatches are left."""
        self.draining = True
        self.wake.set()
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            self._conclude_run(run, rejection(CAUSES[Cause.STOPPING]))
        return len(self._open)

    def stop(self) -> None:
        """Has all handlers end."""
        for run in list(self._running):
            self._end(run, Cause.STOPPING)

    async def idle(self, limit: float) -> bool:
        """Waits until every dispatch has ended and its result is confirmed; False: not within the limit, in seconds."""
        try:
            async with asyncio.timeout(limit):
                await self._idle.wait()
                while self._tasks:  # acknowledgements on their way
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            return False
        return True


STILL_HERE = rejection("the handler of an earlier dispatch of this task has not returned here yet")
TOO_LATE = rejection("the task's deadline has passed, by this agent's clock, before it could begin")
