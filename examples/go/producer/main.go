// Command producer publishes one task until RabbitMQ has it.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const task = `{"message_type": "task.assign", "task_id": "hello-go-1", "task_type": "translate",
	"payload": {"from": "de", "to": "en", "text": "guten Tag"}, "priority": 2}`

func main() {
	broker := os.Getenv("RABBITMQ_URL")
	if _, err := amqp.ParseURI(broker); err != nil { // err would show the password
		log.Fatal("RABBITMQ_URL is not of the form amqp://user:password@host:5672/vhost")
	}
	for err := publish(broker); err != nil; err = publish(broker) {
		log.Printf("not confirmed (%v); again in 1 s", err) // a second copy does no harm
		time.Sleep(time.Second)
	}
	log.Print("RabbitMQ has the task")
}

func publish(broker string) error {
	conn, err := amqp.Dial(broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	const queue, mandatory = "task.assign.high", true // priorities 0 and 1: "task.assign"
	confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, mandatory, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, CorrelationId: "trace-4711", Body: []byte(task)})
	if err != nil {
		return err
	}
	if !confirm.Wait() || len(returned) > 0 {
		return errors.New("no such queue, or the broker refused")
	}
	return nil
}
