"""Works on the tasks of one agent, one at a time. Needs pika (Debian: python3-pika)."""
import concurrent.futures, datetime, json, os, time, uuid
import pika

AGENT = os.environ.get("AGENT", "generalist-1")  # in agents.yaml; a second process needs an id of its own
INSTANCE = uuid.uuid4().hex
jobs = {}  # futures by task_id: what comes again after a lost connection is not begun twice
pool = concurrent.futures.ThreadPoolExecutor(1)

def work(task):
    time.sleep(1)  # the work on task["payload"]
    return {"text": "good day"}  # the output, for the producer

def serve(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=1)

    def publish(kind, **fields):
        message = {"message_type": kind, "agent_id": AGENT, **fields,
                   "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat()}
        channel.basic_publish("", kind, json.dumps(message), pika.BasicProperties(delivery_mode=2), mandatory=True)

    def report(*ids):  # at least every health_check_interval (5 s)
        publish("agent.status", instance_id=INSTANCE, status="ready", active_tasks=len(ids), active_task_ids=ids,
                available_capacity=1 - len(ids), current_load=len(ids))

    report()
    for method, _, body in channel.consume("agent." + AGENT, inactivity_timeout=5):
        if method:
            task = json.loads(body)
            job = jobs.get(task["task_id"]) or jobs.setdefault(task["task_id"], pool.submit(work, task))
            while not job.done():
                report(task["task_id"])
                concurrent.futures.wait([job], timeout=5)
            error = job.exception()  # "rejected": it is tried again; "failed" would be final
            outcome = ({"outcome": "rejected", "error": type(error).__name__} if error else
                       {"outcome": "succeeded", "output": job.result()})
            publish("task.result", attempted=True, **outcome,
                    **{key: task[key] for key in ("task_id", "dispatch_id", "correlation_id", "attempt")})
            channel.basic_nack(method.delivery_tag, requeue=False) if error else channel.basic_ack(method.delivery_tag)
            del jobs[task["task_id"]]
        report()

while True:
    try:
        with pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"])) as connection:
            serve(connection)
    except (pika.exceptions.AMQPError, OSError) as e:
        print(f"no connection ({type(e).__name__}); again in 1 s")
    time.sleep(1)
