package agent_test

import (
	"context"
	"sync"
	"time"

	"taskbus/agent"
)

// calls counts the calls of a handler by task, and how many there were at once.
type calls struct {
	mu        sync.Mutex
	byTask    map[string]int
	now, most int
}

func (c *calls) add(task string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTask == nil {
		c.byTask = map[string]int{}
	}
	c.byTask[task]++
	c.now++
	c.most = max(c.most, c.now)
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// enter counts the handlers in a task at once; most is over all tasks.
func (c *calls) enter(task string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTask == nil {
		c.byTask = map[string]int{}
	}
	c.byTask[task]++
	c.most = max(c.most, c.byTask[task])
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.byTask[task]--
	}
}

func (c *calls) of(task string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byTask[task]
}

// work is a handler that takes so long, and ends early with its ctx.
func work(took time.Duration) agent.Handler {
	return func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
		select {
		case <-time.After(took):
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	}
}

// stubborn is a handler that takes so long whatever its ctx says.
func stubborn(took time.Duration) agent.Handler {
	return func(context.Context, *agent.Task) (agent.Result, error) {
		time.Sleep(took)
		return agent.Result{}, nil
	}
}
