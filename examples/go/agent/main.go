// Command agent works on the tasks of generalist-1 until it is stopped.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	id    = "generalist-1" // as in agents.yaml; a second process is another agent, with an id of its own
	slots = 5              // its max_concurrent_tasks
)

var instance = rand.Text() // so that Taskbus can tell when it is not

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
	check("set the prefetch", ch.Qos(slots, 0, false))
	tasks, err := ch.Consume("agent."+id, id, false, false, false, false, nil)
	check("consume agent."+id, err)

	active, done, beat := 0, make(chan amqp.Delivery), time.Tick(5*time.Second)
	report(ch, active) // at once, whenever a slot is free again, and every health_check_interval
	for {
		select {
		case d, open := <-tasks:
			if !open {
				log.Fatal("the broker has closed the channel; start again")
			}
			active++
			go func() { work(d); done <- d }()
		case d := <-done:
			active--
			check("acknowledge", d.Ack(false)) // after the work: what dies with us comes back
			report(ch, active)
		case <-beat:
			report(ch, active)
		}
	}
}

func work(d amqp.Delivery) {
	log.Printf("%s: working on dispatch %s", d.CorrelationId, d.MessageId) // the task is in d.Body
	time.Sleep(time.Second)
}

func report(ch *amqp.Channel, active int) {
	body, err := json.Marshal(map[string]any{
		"message_type": "agent.status", "agent_id": id, "instance_id": instance, "status": "ready", "current_load": float64(active) / slots,
		"active_tasks": active, "available_capacity": slots - active, "timestamp": time.Now().UTC(),
	})
	check("encode the status", err)
	check("report", ch.PublishWithContext(context.Background(), "", "agent.status", false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body}))
}

func check(doing string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", doing, err)
	}
}
