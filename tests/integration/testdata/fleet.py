"""A producer and an agent as people write them with pika.

Both declare the queues they use themselves, plain and durable, and know nothing
of Taskbus beyond its messages. What happens is printed as one JSON object a line.

usage: fleet.py declare | work      (the broker's URL is in RABBITMQ_URL)
"""
import json
import os
import sys
from datetime import datetime

import pika

QUEUES = ["task.assign", "agent.status", "assignment.failed", "agent.a1"]
DEADLINE = 20  # seconds


def say(**what):
    print(json.dumps(what), flush=True)


def connect():
    return pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))


def declare():
    """Declares every queue, each on a channel of its own: a refusal closes it."""
    connection = connect()
    for queue in QUEUES:
        channel = connection.channel()
        try:
            channel.queue_declare(queue=queue, durable=True)
            say(queue=queue, declared=True)
            channel.close()
        except pika.exceptions.ChannelClosedByBroker as refusal:
            say(queue=queue, declared=False, code=refusal.reply_code)
    connection.close()


def send(channel, queue, message):
    channel.basic_publish(
        exchange="",
        routing_key=queue,
        body=json.dumps(message),
        properties=pika.BasicProperties(delivery_mode=2),
    )


def work():
    """Reports once, asks for two tasks, and does those that arrive."""
    connection = connect()
    connection.call_later(DEADLINE, lambda: sys.exit("no dispatch within %d s" % DEADLINE))
    channel = connection.channel()
    channel.confirm_delivery()
    send(channel, "agent.status", {
        "message_type": "agent.status",
        "agent_id": "a1",
        "status": "ready",
        "current_load": 0.0,
        "active_tasks": 0,
        "available_capacity": 2,
        "timestamp": datetime.now().isoformat(),
    })
    for number in (1, 2):
        send(channel, "task.assign", {
            "message_type": "task.assign",
            "task_id": "task_%d" % number,
            "task_type": "build",
            "payload": {"number": number},
            "priority": 2,
            "correlation_id": "trace_%d" % number,
            "timeout_seconds": 300,
        })
    send(channel, "task.assign", {
        "message_type": "task.assign",
        "task_id": "task_3",
        "task_type": "translate",
        "payload": {},
        "priority": 0,
        "correlation_id": "trace_3",
        "timeout_seconds": 300,
    })
    waiting = {"task_1", "task_2", "task_3"}

    def on_message(channel, method, properties, body):
        message = json.loads(body)
        say(type=properties.type, routing_key=method.routing_key, message=message)
        channel.basic_ack(method.delivery_tag)
        waiting.discard(message["task_id"])
        if not waiting:
            channel.stop_consuming()

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("agent.a1", on_message)
    channel.basic_consume("assignment.failed", on_message)
    channel.start_consuming()
    connection.close()


if __name__ == "__main__":
    {"declare": declare, "work": work}[sys.argv[1]]()
