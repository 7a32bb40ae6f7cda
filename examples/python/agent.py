"""Works on the tasks of generalist-1 until it is stopped. Needs pika (Debian: python3-pika)."""
import concurrent.futures
import datetime
import json
import os
import time
import uuid

import pika

AGENT, SLOTS = "generalist-1", 5  # as in agents.yaml; a second process is another agent, with an id of its own
INSTANCE = uuid.uuid4().hex  # so that Taskbus can tell when it is not
active = 0


def work(task):
    print(f"{task['correlation_id']}: working on dispatch {task['dispatch_id']}", flush=True)
    time.sleep(1)


def report():  # at once, whenever a slot is free again, and every health_check_interval
    status = {
        "message_type": "agent.status", "agent_id": AGENT, "instance_id": INSTANCE, "status": "ready", "current_load": active / SLOTS,
        "active_tasks": active, "available_capacity": SLOTS - active,
        "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(),
    }
    channel.basic_publish("", "agent.status", json.dumps(status), pika.BasicProperties(delivery_mode=2))


def beat():
    report()
    connection.call_later(5, beat)


def on_task(channel, method, properties, body):
    global active
    active += 1
    future = pool.submit(work, json.loads(body))  # in a thread, so that this one can go on reporting
    future.add_done_callback(lambda f: connection.add_callback_threadsafe(lambda: finish(method.delivery_tag, f)))


def finish(tag, future):
    global active
    active -= 1
    if future.exception() is None:
        channel.basic_ack(tag)  # after the work: what dies with us comes back
    else:
        channel.basic_nack(tag, requeue=False)  # it is tried again, by another agent where there is one
    report()


connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
channel = connection.channel()
channel.basic_qos(prefetch_count=SLOTS)
channel.basic_consume("agent." + AGENT, on_task)
with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
    beat()
    channel.start_consuming()
