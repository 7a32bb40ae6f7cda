"""Works on the tasks of generalist-1 until SIGTERM or Ctrl-C. Needs pika (Debian: python3-pika)."""
import concurrent.futures, datetime, json, os, signal, threading, time, uuid
import pika
AGENT, SLOTS = "generalist-1", 5  # as in agents.yaml
INSTANCE = uuid.uuid4().hex  # by it Taskbus sees a second process under this id; that needs an id of its own
jobs = {}  # by task_id: task, future, and tag of the delivery; None: the connection was lost
stop = threading.Event()
class RateLimited(Exception): pass  # RateLimited(seconds): the provider takes no calls for so long

def work(task):  # in a thread, so that this one can go on reporting; what was found out, and used, for the quotas
    print(f"{task['correlation_id']}: working on dispatch {task['dispatch_id']}", flush=True)
    time.sleep(1)
    return {"text": "good day"}, {"requests": 1, "input_tokens": 1200, "output_tokens": 300}

def run(task):  # returns the task.result; "rejected" is tried again, "failed" would be final
    begun = time.monotonic()
    try:
        output, usage = work(task)
        result = {"outcome": "succeeded", "output": output, "usage": usage}
    except RateLimited as e:  # this agent gets it no sooner, another may have it at once
        result = {"outcome": "rejected", "attempted": True, "error": "rate limit", "retry_after_ms": 1000 * e.args[0]}
    except Exception as e:
        result = {"outcome": "rejected", "attempted": True, "error": type(e).__name__}
    result |= {key: task[key] for key in ("task_id", "dispatch_id", "correlation_id", "attempt")}
    return {"message_type": "task.result", **result, "duration_ms": 1000 * (time.monotonic() - begun)}

def session(pool):  # one connection; returns when all is done after a signal
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
    channel = connection.channel()
    channel.confirm_delivery()  # basic_publish returns when RabbitMQ has the message, or raises
    channel.basic_qos(prefetch_count=SLOTS)
    def publish(key, message):
        message = {**message, "agent_id": AGENT, "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat()}
        channel.basic_publish("", key, json.dumps(message), pika.BasicProperties(delivery_mode=2), mandatory=True)
    def report():
        active = [job["task"]["task_id"] for job in jobs.values() if not job["future"].done()]
        publish("agent.status", {
            "message_type": "agent.status", "instance_id": INSTANCE, "status": "offline" if stop.is_set() else "ready",
            "active_tasks": len(active), "available_capacity": SLOTS - len(active), "current_load": len(active) / SLOTS,
            "active_task_ids": active})
    def beat():  # every health_check_interval
        report()
        connection.call_later(5, beat)
    def on_task(channel, method, properties, body):
        task = json.loads(body)
        if task["task_id"] not in jobs:  # else it comes again after a lost connection: it is not begun twice
            jobs[task["task_id"]] = {"task": task, "future": pool.submit(run, task)}
        jobs[task["task_id"]]["tag"] = method.delivery_tag
    consumer = channel.basic_consume("agent." + AGENT, on_task)
    beat()
    while not stop.is_set() or any(job["tag"] for job in jobs.values()):
        connection.process_data_events(time_limit=0.05)
        if stop.is_set() and channel.consumer_tags:
            channel.basic_cancel(consumer)  # nothing new; what waits goes to other agents
            report()
        elif not channel.consumer_tags and not stop.is_set(): raise pika.exceptions.ConsumerCancelled()  # no queue
        for job in [job for job in jobs.values() if job["tag"] and job["future"].done()]:
            result, tag = job["future"].result(), job["tag"]
            publish("task.result", result)  # before the acknowledgement: what dies with us comes back
            channel.basic_nack(tag, requeue=False) if result["outcome"] == "rejected" else channel.basic_ack(tag)
            del jobs[result["task_id"]]
            report()  # a slot is free
    connection.close()

def main():
    for number in (signal.SIGTERM, signal.SIGINT):  # a second one ends it at once
        signal.signal(number, lambda number, _: (stop.set(), signal.signal(number, signal.SIG_DFL)))
    pause = 0.5
    with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                session(pool)
            except (pika.exceptions.AMQPError, OSError) as e:
                pause = 0.5 if time.monotonic() - begun > 60 else min(30, 2 * pause)
                print(f"no connection ({type(e).__name__}); again in {pause} s", flush=True)
                for job in jobs.values(): job["tag"] = None  # it comes again, and then its result is sent
                stop.wait(pause)

if __name__ == "__main__":
    main()
