// Command sdk-agent works on the tasks of generalist-1: outcomes are reported, tasks can be
// withdrawn, SIGTERM drains.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"taskbus/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := agent.Run(ctx, agent.Config{
		ID: "generalist-1", URL: os.Getenv("RABBITMQ_URL"), Slots: 5, // as in agents.yaml
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, work)
	if err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, t *agent.Task) (agent.Result, error) {
	select {
	case <-time.After(time.Second): // the work on t.Payload
		return agent.Result{Output: map[string]string{"text": "good day"}}, nil
	case <-ctx.Done(): // withdrawn, out of time, or the agent has to stop
		return agent.Result{}, ctx.Err()
	}
}
