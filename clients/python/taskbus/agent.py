"""The agent: takes tasks from its queue, has handlers do them, and reports what became of them."""
from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aio_pika.abc import AbstractIncomingMessage

from . import wire
from .link import FAULTS, Consumer, Denied, Link, Missing, Taken, broker_url, describe, pauses, translated
from .log import log_of
from .work import Handler, Lost, Refusal, Work

H = TypeVar("H", bound=Handler)

MAX_SLOTS = 2_000  # some brokers allow a consumer of a quorum queue no more
REPORT_GAP = 0.25  # seconds between two heartbeats that were asked for
REBIND_WITHIN = 30.0  # the control queue is bound again: its exchange may have been declared anew
CONSUME_WITHIN = 10.0  # seconds: a queue that is just being made may leave a consumer without an answer
QUEUE_PAUSE_FIRST, QUEUE_PAUSE_MOST = 0.25, 5.0  # between two looks for a queue that is not there
GOODBYE = 6.0  # seconds for the results of handlers that were told to stop
FAREWELL = 1.0  # for the last heartbeat

NO_CONTROL = ("no control queue: tasks that are withdrawn will be worked on all the same, and nothing keeps a second "
              "process from working as this agent")


class Agent:
    """One agent of the fleet: agent_id is its key in agents.yaml, and at most one process may run under it.

        agent = Agent("researcher-1", slots=4)

        @agent.handles("web-research")
        async def research(task: Task) -> dict:
            return {"answer": 42}

        agent.run()

    The return value of a handler is the task's output: what json.dumps takes, or an OutputRef; None is no output. A
    plain def runs in a thread of its own. How a task ends:

        return                     succeeded  has ended
        raise Fail("...")          failed     has ended
        raise Reject("...")        rejected   goes to another agent; it was not begun
        raise Retry("...")         rejected   is tried again, elsewhere if possible; a failure here
        raise RetryAfter(20)       rejected   comes here no sooner than in 20 s; no failure
        any other exception        rejected   as Retry: it is an accident, as a panic is in Go, and no decision

    When the task is withdrawn, or its time is up, or the agent stops and drain_timeout is over, a coroutine is
    cancelled, and task.cancelled is set, which a handler in a thread has to look at. The outcome is then cancelled,
    failed, or rejected; if the handler returns a value all the same, succeeded. What does not return in time
    (0.5 s after a deadline, 5 s after a withdrawal) is not waited for, but keeps its slot.

    url            of the broker; default RABBITMQ_URL
    slots          how many tasks at once, 1 to 2,000
    interval       seconds between heartbeats, 1 to 60: not above health_check_interval in agents.yaml
    drain_timeout  seconds that handlers may go on once the agent is to stop
    capabilities, labels  are announced, to a coordinator with discovery
    """

    def __init__(self, agent_id: str, *, slots: int = 1, url: str | None = None, interval: float = 5.0,
                 drain_timeout: float = 30.0, capabilities: Sequence[str] = (),
                 labels: Mapping[str, str] | None = None) -> None:
        if not wire.valid_agent_id(agent_id):
            raise ValueError('agent_id: give 1 to 128 letters, digits and . _ : -, beginning with a letter or digit, '
                             'and neither "status" nor ending in ".control"; it is the agent\'s key in agents.yaml')
        if not 1 <= slots <= MAX_SLOTS:
            raise ValueError(f"slots: give 1 to {MAX_SLOTS}")
        if not 1 <= interval <= 60:
            raise ValueError("interval: give 1 to 60 seconds")
        if not 0 <= drain_timeout <= 24 * 3600:
            raise ValueError("drain_timeout: give at most a day, in seconds")
        self.id, self.slots, self._interval, self._drain_timeout = agent_id, slots, interval, drain_timeout
        self._url = url
        self._announced: dict[str, Any] = {}
        if capabilities:
            self._announced["capabilities"] = list(capabilities)
        if labels:
            self._announced["labels"] = dict(labels)
        self._instance = uuid.uuid4().hex  # by it Taskbus notices a second process under this id
        self._handlers: dict[str, Handler] = {}
        self._log = log_of("agent", agent_id=agent_id)
        self._stopping: asyncio.Event | None = None  # while it serves

    def handles(self, *task_types: str) -> Callable[[H], H]:
        """Makes a function the handler of tasks of these types; without any, of all that have no other."""
        def register(handler: H) -> H:
            for name in task_types or ("",):
                if name in self._handlers:
                    raise ValueError("two handlers for " + (f"tasks of the type {name}" if name else "all types"))
                self._handlers[name] = handler
            return handler
        return register

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains; a second signal ends the process at once."""
        # As asyncio.run, which would wait for ever for a handler that cannot be cancelled.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._run())
            if rest := asyncio.all_tasks(loop):
                for each in rest:
                    each.cancel()
                loop.run_until_complete(asyncio.wait(rest, timeout=1))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()

        def stop(number: signal.Signals) -> None:
            self.stop()
            for each in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(each)
                signal.signal(each, signal.SIG_DFL)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        await self.serve()

    def stop(self) -> None:
        """Has serve drain and return; call it in the event loop of serve."""
        if self._stopping:
            self._stopping.set()

    async def serve(self) -> None:
        """Works until stop is called, or its task is cancelled, then drains: it reports offline, takes nothing more,
        lets handlers finish within drain_timeout, and sees their results confirmed. A broker that is away is tried
        again for ever. The only errors are of arguments, before anything is dialled."""
        if not self._handlers:
            raise ValueError("there is no handler: give the function that does the work to @agent.handles(...)")
        url = broker_url(self._url)
        self._stopping = asyncio.Event()
        service = _Service(self, Work(self.id, self.slots, self._handlers, self._log), url)
        sessions = asyncio.create_task(service.sessions())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([sessions, stopping], return_when=asyncio.FIRST_COMPLETED)
            if sessions.done():
                sessions.result()
        finally:
            try:
                await service.drain(self._drain_timeout)
            finally:
                stopping.cancel()
                sessions.cancel()
                await asyncio.wait([sessions, stopping])
                self._stopping = None
                self._log.info("the agent has stopped")


class _Service:
    """An agent while it serves."""

    def __init__(self, agent: Agent, work: Work, url: Any) -> None:
        self._agent, self._work, self._url = agent, work, url
        self._log = agent._log
        self._leaving = asyncio.Event()
        self._farewell = asyncio.Event()
        self._connected = False

    async def drain(self, timeout: float) -> None:
        left = self._work.drain()
        self._leaving.set()
        self._log.info("the agent is stopping; %d unfinished tasks", left)
        if not await self._work.idle(timeout):
            self._work.stop()
            if not await self._work.idle(GOODBYE):
                self._log.warning("the broker has not confirmed every result; it gives these tasks to others")
        if self._connected:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._farewell.wait(), FAREWELL)

    async def sessions(self) -> None:
        """Opens one session after another."""
        self._log.info("connecting to the broker at %s:%s", self._url.host, self._url.port)
        async for pause in pauses(asyncio.Event()):
            try:
                why = await self._session()
                self._log.warning("the session has ended (%s); another try in %.1f s", why, pause)
            except Taken:
                self._log.warning("another process works as this agent, or the broker has not noticed yet that an "
                                  "earlier one is gone; waiting for its place, another try in %.1f s", pause)
            except Missing as e:
                self._log.warning("%s; waiting for a coordinator to declare it, another try in %.1f s", e, pause)
            except (Denied, *FAULTS) as e:
                self._log.warning("no session with the broker (%s); another try in %.1f s", describe(e), pause)

    async def _session(self) -> str:
        """Serves until the session's first fault, and returns that."""
        link = await Link.open(self._url, "taskbus-agent/" + self._agent.id)
        tasks: list[asyncio.Task[Any]] = []
        try:
            if not await link.has_exchange(wire.EXCHANGE_AGENTS):
                raise Missing(f"the exchange {wire.EXCHANGE_AGENTS}, by which agents report, does not exist yet")
            session = _Session(link)
            control = await self._listen(link)
            if control is None:
                self._log.warning(NO_CONTROL)
            self._log.info("connected to the broker")
            self._work.attach(session)
            self._connected = True
            reporting = asyncio.Event()
            work: list[Coroutine[Any, Any, Any]] = [
                link.lost.wait(), self._consume(link, reporting), self._heartbeats(session, reporting),
                self._keep_control(link, control)]
            tasks = [asyncio.create_task(each) for each in work]
            while not link.lost.is_set():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    if not each.cancelled() and (e := each.exception()):
                        raise e
                tasks = [each for each in tasks if each not in done]
            return link.why
        finally:
            self._connected = False
            self._work.detach()
            for each in tasks:
                each.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await link.close()

    # The agent's queue

    async def _consume(self, link: Link, reporting: asyncio.Event) -> None:
        """Consumes the agent's queue, as often as it is lost, until the agent leaves. Heartbeats go out with
        a queue or without: a coordinator that does not know the agent yet declares it when it hears of it."""
        name = "agent." + self._agent.id
        pause, told = QUEUE_PAUSE_FIRST, ""
        while not self._leaving.is_set():
            try:
                async with asyncio.timeout(CONSUME_WITHIN):
                    consumer = await self._begin(link, name)
            except (Missing, Taken, Denied, *FAULTS) as e:
                reporting.set()
                if str(e) != told and not link.lost.is_set():
                    told = str(e)
                    self._log.warning("cannot consume %s (%s); another try follows", name, describe(e))
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._leaving.wait(), pause)
                pause = min(2 * pause, QUEUE_PAUSE_MOST)
                continue
            reporting.set()  # the consumer first, lest the coordinator see an agent without
            pause, told = QUEUE_PAUSE_FIRST, ""
            self._log.info("takes tasks from %s, %d at once", name, self._agent.slots)
            while not consumer.ended.is_set() and not self._leaving.is_set():
                await _first(consumer.ended, self._leaving, within=self._agent._interval)
                if not self._leaving.is_set():
                    await consumer.look()
            if self._leaving.is_set():
                with contextlib.suppress(Missing, Taken, Denied, *FAULTS):
                    await consumer.cancel()  # what the broker has sent by then still comes, and is given back
            else:
                self._work.forget_waiting()
        reporting.set()

    async def _begin(self, link: Link, name: str) -> Consumer:
        channel = await link.channel()
        queue = await translated(channel.get_queue(name, ensure=False))

        def take(message: AbstractIncomingMessage) -> None:
            self._work.receive(channel, message, message.body, message.headers, bool(message.redelivered))

        consumer = Consumer(channel, queue, take)
        self._work.origin = channel
        await consumer.begin(prefetch=self._agent.slots)
        return consumer

    # Heartbeats

    async def _heartbeats(self, session: _Session, reporting: asyncio.Event) -> None:
        """Reports at once, every interval, when the agent leaves, and when the work wants it."""
        await reporting.wait()
        wake = self._work.wake
        while True:
            wake.clear()
            status = {**self._work.status(self._agent._instance), **self._agent._announced}
            try:
                await session.report("agent.status." + self._agent.id, wire.encode(status), {"type": "agent.status"})
            except Refusal as e:
                self._work.tell_refusal(e)
            except Lost:
                return
            if status["status"] == "offline":
                self._farewell.set()
            if not self._leaving.is_set():
                await _first(self._leaving, within=REPORT_GAP)
            await _first(wake, within=self._agent._interval)

    # The control queue

    async def _listen(self, link: Link) -> Consumer | None:
        """Consumes the agent's control queue; None: it is not to be had, and tasks cannot be withdrawn. Its being ours
        keeps a second process from working as this agent."""
        name = f"agent.{self._agent.id}.control"
        channel = await link.channel()
        try:
            queue = await translated(channel.declare_queue(name, exclusive=True, durable=False, auto_delete=False))
            await translated(queue.bind(wire.EXCHANGE_CONTROL, self._agent.id))
            consumer = Consumer(channel, queue, self._obey)
            await consumer.begin(no_ack=True)
            return consumer
        except (Missing, Denied, *FAULTS) as e:
            self._log.debug("no control queue: %s", describe(e))
            return None

    async def _keep_control(self, link: Link, control: Consumer | None) -> None:
        """Binds the control queue again and again: where its exchange was deleted and declared anew the binding is
        gone, silently. What is not to be had is tried again likewise."""
        while True:
            await asyncio.sleep(random.uniform(REBIND_WITHIN / 2, REBIND_WITHIN))
            if control and not control.ended.is_set():
                with contextlib.suppress(Missing, Denied, *FAULTS):
                    await translated(control.queue.bind(wire.EXCHANGE_CONTROL, self._agent.id))
                    await control.look()
            if control is None or control.ended.is_set():
                had, control = control, await self._listen(link)
                if control and not had:
                    self._log.info("the agent has its control queue now")
                elif had and not control:
                    self._log.warning(NO_CONTROL)

    def _obey(self, message: AbstractIncomingMessage) -> None:
        try:
            m = wire.decode(message.body)
        except ValueError:
            self._log.warning("a control message cannot be read")
            return
        known = m.get("message_type") == "task.cancel" and m.get("message_version", 1) == 1
        if known and wire.valid_id(m.get("task_id")):
            self._work.cancel(m["task_id"], str(m.get("dispatch_id", "")), wire.clean(str(m.get("reason", ""))))


class _Session:
    """A link as the work sees it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def report(self, key: str, body: bytes, properties: dict[str, str]) -> None:
        await self._link.publish(wire.EXCHANGE_AGENTS, key, body, properties)


async def _first(*events: asyncio.Event, within: float) -> None:
    """Waits until one of the events is set, or so many seconds have passed."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
