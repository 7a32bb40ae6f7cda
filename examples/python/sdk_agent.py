"""Works on the tasks of generalist-1 until SIGTERM or Ctrl-C. Needs aio-pika (Debian: python3-aio-pika)."""
import asyncio
from taskbus import Agent, Task

agent = Agent("generalist-1", slots=5)  # as in agents.yaml

@agent.handles()  # of every type
async def work(task: Task) -> dict:  # cancelled when the task is withdrawn, or out of time
    await asyncio.sleep(1)  # the work on task.payload
    task.used(requests=1, input_tokens=1200, output_tokens=300)
    return {"text": "good day"}  # the output

agent.run()
