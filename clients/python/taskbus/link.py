"""A connection to the broker: one session, from which nothing comes back after its first fault.

aio-pika's own way of connecting again is not used: it declares and consumes again behind the back of what counts which
message lies with whom.
"""
from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import (
    AMQPError, ChannelInvalidStateError, ChannelNotFoundEntity, DeliveryError, PublishError,
)
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource
from yarl import URL

from .work import Lost, Refusal

HEARTBEAT = 10  # seconds between what either side sends at least; aiormq notices a silence of about three times that
CONNECT_WITHIN = 30.0
CLOSE_WITHIN = 5.0
BACKOFF_FIRST, BACKOFF_MOST, BACKOFF_RESET = 0.25, 15.0, 30.0  # seconds

# What a call to the broker raises when the connection or the channel has ended, or the broker refuses it.
FAULTS = (AMQPError, ChannelInvalidStateError, OSError, RuntimeError, asyncio.TimeoutError)

OnMessage = Callable[[AbstractIncomingMessage], None]


class Missing(Exception):
    """A queue or an exchange does not exist."""


class Taken(Exception):
    """A queue is another connection's."""


class Denied(Exception):
    """The user may not do this."""


def broker_url(url: str | None) -> URL:
    """The broker's URL: as given, else RABBITMQ_URL. No error shows it: it holds a password."""
    text = url or os.environ.get("RABBITMQ_URL", "")
    if not text:
        raise ValueError("no URL of the broker: give one, or set RABBITMQ_URL (amqp://user:password@host:5672/vhost)")
    try:
        parsed = URL(text)
        if parsed.scheme not in ("amqp", "amqps") or not parsed.host:
            raise ValueError
    except ValueError:
        raise ValueError("the URL of the broker is not of the form amqp://user:password@host:5672/vhost") from None
    return parsed.with_query({"heartbeat": str(HEARTBEAT), "timeout": str(HEARTBEAT), **parsed.query})


def describe(e: BaseException) -> str:
    """A fault in words."""
    return f"{type(e).__name__}: {e}" if str(e) else type(e).__name__


async def pauses(stopped: asyncio.Event) -> AsyncIterator[float]:
    """Paces tries to connect: yields the bound of the pause that follows the body, unless stopped. The bound doubles,
    and begins anew after a session that lasted."""
    loop, bound = asyncio.get_running_loop(), BACKOFF_FIRST
    while not stopped.is_set():
        begun, pause = loop.time(), random.uniform(0, bound)
        yield pause
        bound = BACKOFF_FIRST if loop.time() - begun >= BACKOFF_RESET else min(2 * bound, BACKOFF_MOST)
        try:
            await asyncio.wait_for(stopped.wait(), pause)
        except asyncio.TimeoutError:
            pass


class Link:
    """One connection, with a channel that publishes under confirms; what consumes has channels of its own."""

    def __init__(self, connection: AbstractConnection, user: str) -> None:
        self._connection, self.user = connection, user
        self._channel: AbstractChannel
        self._exchanges: dict[str, AbstractExchange] = {}
        self.lost = asyncio.Event()
        self.why = ""

    @classmethod
    async def open(cls, url: URL, name: str) -> Link:
        """Connects; raises one of FAULTS."""
        connection = await guarded(aio_pika.connect(
            url.update_query(name=name), timeout=CONNECT_WITHIN))
        link = cls(connection, url.user or "guest")
        connection.close_callbacks.add(link._on_end)
        try:
            link._channel = await guarded(connection.channel(publisher_confirms=True, on_return_raises=True))
            link._channel.close_callbacks.add(link._on_end)
        except BaseException:
            await link.close()
            raise
        return link

    def _on_end(self, _: Any, e: BaseException | None = None) -> None:
        if not self.lost.is_set():
            self.why = describe(e) if e else "closed"
            self.lost.set()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await guarded(self._connection.close())
        except FAULTS:
            pass
        self.lost.set()

    async def publish(self, exchange: str, key: str, body: bytes, properties: dict[str, Any]) -> None:
        """Publishes a persistent message and returns when the broker has it in a queue; raises Refusal or Lost."""
        if self.lost.is_set():
            raise Lost(self.why)
        message = aio_pika.Message(body, content_type="application/json", user_id=self.user,
                                   delivery_mode=aio_pika.DeliveryMode.PERSISTENT, **properties)
        try:
            if exchange not in self._exchanges:
                self._exchanges[exchange] = self._channel.default_exchange if exchange == "" else await guarded(
                    self._channel.get_exchange(exchange, ensure=False))
            await guarded(self._exchanges[exchange].publish(message, key, mandatory=True))
        except DeliveryError as e:
            raise Refusal("it reached no queue" if isinstance(e, PublishError) else "refused") from None  # e quotes it
        except FAULTS as e:
            self._on_end(None, e)
            raise Lost(describe(e)) from None

    async def channel(self) -> AbstractChannel:
        """A channel for what may fail: an error of the broker ends it, not the session."""
        channel: AbstractChannel = await guarded(self._connection.channel(publisher_confirms=False))
        return channel

    async def has_exchange(self, name: str) -> bool:
        channel = await self.channel()
        try:
            await translated(channel.get_exchange(name, ensure=True))
        except Missing:
            return False
        await guarded(channel.close())
        return True


class Consumer:
    """The consumer of a queue, on a channel of its own; ended is set when it has none any more."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, on_message: OnMessage) -> None:
        self.channel, self.queue, self._on_message = channel, queue, on_message
        self.ended = asyncio.Event()
        self._tag = ""
        channel.close_callbacks.add(self._on_end)

    def _on_end(self, *_: Any) -> None:
        self.ended.set()

    async def begin(self, *, prefetch: int = 0, exclusive: bool = False, no_ack: bool = False) -> None:
        if prefetch:
            await translated(self.channel.set_qos(prefetch_count=prefetch))
        self._tag = await translated(self.queue.consume(self._take, no_ack=no_ack, exclusive=exclusive))

    async def _take(self, message: AbstractIncomingMessage) -> None:
        self._on_message(message)

    async def look(self) -> None:
        """Notices a consumer that the broker has ended, as when its queue was deleted: aio-pika does not tell."""
        try:
            newer = getattr(self.channel, "get_underlay_channel", None)  # aio-pika 9
            channel: Any = await newer() if newer else getattr(self.channel, "channel")
            if self._tag not in channel.consumers:
                self.ended.set()
        except FAULTS:
            self.ended.set()

    async def cancel(self) -> None:
        """Stops taking; what lies with us can still be settled."""
        await translated(self.queue.cancel(self._tag))


async def guarded(call: Any) -> Any:
    """Awaits a call of aio-pika. Where its connection ends meanwhile it may raise CancelledError, which is then not our
    own: that becomes ConnectionError."""
    try:
        return await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ConnectionError("the connection has ended") from None


async def translated(call: Any) -> Any:
    """guarded, with the broker's refusals as our own exceptions."""
    try:
        return await guarded(call)
    except ChannelNotFoundEntity as e:
        raise Missing(str(e)) from None
    except ChannelLockedResource as e:
        raise Taken(str(e)) from None
    except ChannelAccessRefused as e:
        raise Denied(str(e)) from None
