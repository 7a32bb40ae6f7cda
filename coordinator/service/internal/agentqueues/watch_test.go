package agentqueues

import (
	"context"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// one is a broker whose queues have one consumer, and on which something may happen while it counts.
type one struct {
	Broker
	meanwhile func()
}

func (b one) Depth(context.Context, string) (bus.Depth, error) {
	b.meanwhile()
	return bus.Depth{Consumers: 1}, nil
}

// ours are consumers of ours, after so many changes.
type ours struct {
	count int
	turn  uint64
}

func (o *ours) Count(string) int   { return o.count }
func (o *ours) Turn(string) uint64 { return o.turn }

// A consumer counts as the agent's only when it cannot be our own: one of ours that
// comes or goes during the look makes it void.
func TestLookWhileTakingBackChanges(t *testing.T) {
	const void = -1
	for name, c := range map[string]struct {
		own  ours
		then ours // after the look
		want int  // consumers of the agent
	}{
		"none of ours":        {ours{0, 0}, ours{0, 0}, 1},
		"ours":                {ours{1, 2}, ours{1, 2}, 0},
		"more than there are": {ours{2, 4}, ours{2, 4}, 0}, // RabbitMQ counts them late
		"ours is to come":     {ours{0, 1}, ours{0, 1}, void},
		"ours comes":          {ours{0, 0}, ours{1, 2}, void},
		"ours goes":           {ours{1, 2}, ours{0, 4}, void},
		"another has come":    {ours{1, 2}, ours{1, 6}, void},
	} {
		t.Run(name, func(t *testing.T) {
			own := c.own
			q := New(Options{Bus: one{meanwhile: func() { own = c.then }}, Own: &own})
			seen, open := q.look(coordinator.QueueWatch{Agent: "a1", Queue: "q"})
			if !open {
				t.Fatal("the watch ended")
			}
			got := void
			if seen != nil {
				got = seen.(coordinator.QueueSeen).Consumers
			}
			if got != c.want {
				t.Errorf("seen %d, want %d", got, c.want)
			}
		})
	}
}
