// Command producer publishes one task and waits for its outcome.
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
	outcome, err := ask(broker)
	for ; err != nil; outcome, err = ask(broker) { // the same task again is not done twice; its outcome is told again
		log.Printf("no outcome yet (%v); asking again in 1 s", err)
		time.Sleep(time.Second)
	}
	log.Printf("%s", outcome)
}

func ask(broker string) (outcome []byte, err error) {
	conn, err := amqp.Dial(broker)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	const direct = "amq.rabbitmq.reply-to" // RabbitMQ's own way back to this channel
	answers, err := ch.Consume(direct, "", true, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	const queue, mandatory = "task.assign.high", true // priorities 0 and 1: "task.assign"
	confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, mandatory, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, CorrelationId: "trace-4711", ReplyTo: direct, Body: []byte(task)})
	if err != nil {
		return nil, err
	}
	if !confirm.Wait() || len(returned) > 0 {
		return nil, errors.New("no such queue, or the broker refused")
	}
	log.Print("RabbitMQ has the task")
	answer, ok := <-answers
	if !ok {
		return nil, errors.New("the connection was lost")
	}
	return answer.Body, nil
}
