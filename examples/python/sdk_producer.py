"""Publishes one task and waits for its output. Needs aio-pika (Debian: python3-aio-pika)."""
import asyncio
from taskbus import Client

async def main() -> None:
    async with Client() as bus:
        done = await bus.submit("translate", {"from": "de", "to": "en", "text": "guten Tag"},
                                task_id="hello-python-1", priority="high")
        print(await done.result(timeout=60), "from", done.agent)

asyncio.run(main())
