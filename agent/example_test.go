package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"taskbus/agent"
	"taskbus/tests/support/membus"
)

// An agent is a function and a Config. SIGTERM lets it finish what it runs.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := agent.Run(ctx, agent.Config{
		ID:           "gpu-1", // as in agents.yaml
		URL:          os.Getenv("RABBITMQ_URL"),
		Slots:        4,
		Capabilities: []string{"gpu", "embedding"},
	}, func(ctx context.Context, t *agent.Task) (agent.Result, error) {
		var order struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(t.Payload, &order); err != nil {
			return agent.Result{}, err // failed: no other agent could read it either
		}
		tokens, err := embed(ctx, order.Text)
		return agent.Result{Usage: &agent.Usage{InputTokens: tokens}}, err
	})
	if err != nil {
		log.Fatal(err) // the Config cannot be used; nothing else ends an agent but its ctx
	}
}

// A handler chooses by its error what becomes of the task.
func ExampleHandler() {
	errFull := errors.New("out of GPU memory")
	handle := func(ctx context.Context, t *agent.Task) (agent.Result, error) {
		switch {
		case t.Type != "embedding":
			return agent.Result{}, agent.Reject("this agent makes embeddings only") // another agent; nothing was begun
		case t.MaybeDuplicate && alreadyStored(t.ID):
			return agent.Result{}, nil // succeeded: an earlier copy has done it
		}
		_, err := embed(ctx, string(t.Payload))
		switch {
		case errors.Is(err, errFull):
			return agent.Result{}, agent.Retry(err) // another agent; counts as a failure here
		case errors.Is(context.Cause(ctx), agent.ErrCancelled):
			cleanUp(t.ID) // withdrawn: whatever is returned, the outcome is cancelled
		}
		return agent.Result{}, err // failed, or succeeded when nil
	}
	_, err := handle(context.Background(), &agent.Task{ID: "t1", Type: "translation"})
	fmt.Println(err)
	// Output: this agent makes embeddings only
}

// What was given to the agent together is done together.
func ExampleRunBatches() {
	ctx, stop := context.WithCancel(context.Background())
	stop() // at once, for the sake of the example
	err := agent.RunBatches(ctx, agent.Config{ID: "gpu-1", Bus: membus.New(), Slots: 20},
		func(ctx context.Context, batch []*agent.Member) error {
			vectors, err := embedAll(ctx, batch)
			if err != nil {
				return err // the outcome of every task that has none of its own
			}
			for i, m := range batch {
				switch {
				case m.Context().Err() != nil: // withdrawn meanwhile, or out of time
					m.Finish(agent.Result{}, context.Cause(m.Context()))
				case vectors[i] == nil:
					m.Finish(agent.Result{}, errors.New("the text is empty"))
				}
			}
			return nil // the others have succeeded
		})
	fmt.Println(err)
	// Output: <nil>
}

// Tests need no broker: membus is one in memory.
func ExampleConfig() {
	ctx, stop := context.WithCancel(context.Background())
	stop() // at once, for the sake of the example
	err := agent.Run(ctx, agent.Config{ID: "gpu-1", Bus: membus.New()},
		func(context.Context, *agent.Task) (agent.Result, error) {
			return agent.Result{}, nil
		})
	fmt.Println(err)
	// Output: <nil>
}

func embed(context.Context, string) (tokens float64, err error) { return 0, nil }
func alreadyStored(string) bool                                 { return false }
func cleanUp(string)                                            {}
func embedAll(context.Context, []*agent.Member) ([][]float64, error) {
	return nil, nil
}
