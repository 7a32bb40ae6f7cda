// Command producer publishes one task and waits until RabbitMQ has it.
package main

import (
	"context"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

const task = `{"message_type": "task.assign", "task_id": "hello-go-1", "task_type": "translate",
	"payload": {"from": "de", "to": "en", "text": "guten Tag"}, "priority": 2}`

func main() {
	broker := os.Getenv("RABBITMQ_URL")
	if _, err := amqp.ParseURI(broker); err != nil {
		log.Fatal("RABBITMQ_URL is not of the form amqp://user:password@host:5672/vhost") // err would show the password
	}
	conn, err := amqp.Dial(broker)
	check("connect", err)
	defer conn.Close()
	ch, err := conn.Channel()
	check("open a channel", err)
	check("switch confirms on", ch.Confirm(false))
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))

	const mandatory = true           // give it back if there is no such queue
	const queue = "task.assign.high" // for priorities 2 and 3; "task.assign" for 0 and 1
	confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, mandatory, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", CorrelationId: "trace-4711", Body: []byte(task)})
	check("publish", err)
	if !confirm.Wait() || len(returned) > 0 {
		log.Fatal("the broker did not take the task; publish it again: a second copy does no harm")
	}
	log.Print("RabbitMQ has the task")
}

func check(doing string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", doing, err)
	}
}
