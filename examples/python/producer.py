"""Publishes one task until RabbitMQ has it. Needs pika (Debian: python3-pika)."""
import json, os, time
import pika

task = {"message_type": "task.assign", "task_id": "hello-python-1", "task_type": "translate",
        "payload": {"from": "de", "to": "en", "text": "guten Tag"}, "priority": 2}

def publish():
    with pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"])) as connection:
        channel = connection.channel()
        channel.confirm_delivery()  # basic_publish returns when RabbitMQ has the message, or raises
        channel.basic_publish("", "task.assign.high", json.dumps(task),  # priorities 0 and 1: "task.assign"
                              pika.BasicProperties(delivery_mode=2, correlation_id="trace-4712"), mandatory=True)

while True:
    try:
        publish()
        break
    except (pika.exceptions.AMQPError, OSError) as e:
        print(f"not confirmed ({type(e).__name__}); again in 1 s")  # a second copy does no harm
        time.sleep(1)
print("RabbitMQ has the task")
