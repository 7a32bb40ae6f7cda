"""Publishes one task and waits for its outcome. Needs pika (Debian: python3-pika)."""
import json, os, time
import pika

task = {"message_type": "task.assign", "task_id": "hello-pika-1", "task_type": "translate",
        "payload": {"from": "de", "to": "en", "text": "guten Tag"}, "priority": 2}

def ask():  # after a lost connection the same task again: it is not done twice, and its outcome is told again
    with pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"])) as connection:
        channel, answers = connection.channel(), []
        channel.confirm_delivery()  # basic_publish returns when RabbitMQ has the message, or raises
        channel.basic_consume("amq.rabbitmq.reply-to", lambda *got: answers.append(json.loads(got[-1])), auto_ack=True)
        channel.basic_publish("", "task.assign.high", json.dumps(task), mandatory=True,  # priority 0, 1: "task.assign"
                              properties=pika.BasicProperties(delivery_mode=2, correlation_id="trace-4712",
                                                              reply_to="amq.rabbitmq.reply-to"))
        print("RabbitMQ has the task")
        while not answers:
            connection.process_data_events(time_limit=None)
        return answers[0]

while True:
    try:
        print(ask())
        break
    except (pika.exceptions.AMQPError, OSError) as e:
        print(f"no outcome yet ({type(e).__name__}); asking again in 1 s")
        time.sleep(1)
