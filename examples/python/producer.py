"""Publishes one task and waits until RabbitMQ has it. Needs pika (Debian: python3-pika)."""
import json
import os

import pika

task = {
    "message_type": "task.assign", "task_id": "hello-python-1", "task_type": "translate",
    "payload": {"from": "de", "to": "en", "text": "guten Tag"}, "priority": 2,
}

connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
channel = connection.channel()
channel.confirm_delivery()  # basic_publish now waits, and raises NackError or UnroutableError
channel.basic_publish(
    exchange="", mandatory=True, body=json.dumps(task),
    routing_key="task.assign.high",  # for priorities 2 and 3; "task.assign" for 0 and 1
    properties=pika.BasicProperties(delivery_mode=2, content_type="application/json", correlation_id="trace-4712"))
print("RabbitMQ has the task")
connection.close()
