package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/tests/support/membus"
)

func nothing(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, nil }

// Whatever is wrong is said before anything is dialled, all at once.
func TestConfigThatCannotBeUsed(t *testing.T) {
	broker := membus.New()
	many := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint("c", i))
		}
		return list
	}
	labels := map[string]string{}
	for _, key := range many(33) {
		labels[key] = ""
	}
	for _, tt := range []struct {
		name   string
		change func(*agent.Config)
		want   string // in the error; empty: it can be used
	}{
		{"the least", func(*agent.Config) {}, ""},
		{"no ID", func(c *agent.Config) { c.ID = "" }, "ID"},
		{"an ID with a space", func(c *agent.Config) { c.ID = "gpu 1" }, "beginning with a letter or digit"},
		{"a reserved ID", func(c *agent.Config) { c.ID = "gpu.control" }, "neither"},
		{"a queue's name that is too long", func(c *agent.Config) { c.Queue = strings.Repeat("q", 256) }, "255"},
		{"a queue's name outside ASCII", func(c *agent.Config) { c.Queue = "agent.é" }, "printable ASCII"},
		{"no broker", func(c *agent.Config) { c.Bus = nil }, "RABBITMQ_URL"},
		{"two brokers", func(c *agent.Config) { c.URL = "amqp://h/" }, "both"},
		{"a URL of another kind", func(c *agent.Config) { c.Bus, c.URL = nil, "http://secret@h/" }, "neither amqp nor amqps"},
		{"negative slots", func(c *agent.Config) { c.Slots = -1 }, "1 to 2000"},
		{"too many slots", func(c *agent.Config) { c.Slots = 2001 }, "1 to 2000"},
		{"the most slots", func(c *agent.Config) { c.Slots = 2000 }, ""},
		{"heartbeats that are too frequent", func(c *agent.Config) { c.Interval = time.Second - 1 }, "1s to 1m0s"},
		{"heartbeats that are too rare", func(c *agent.Config) { c.Interval = time.Minute + 1 }, "1s to 1m0s"},
		{"the shortest interval", func(c *agent.Config) { c.Interval = time.Second }, ""},
		{"a negative drain", func(c *agent.Config) { c.DrainTimeout = -1 }, "24h"},
		{"an endless drain", func(c *agent.Config) { c.DrainTimeout = 25 * time.Hour }, "24h"},
		{"an endless wait for a batch", func(c *agent.Config) { c.BatchWait = 11 * time.Second }, "10s"},
		{"an empty capability", func(c *agent.Config) { c.Capabilities = []string{"go", ""} }, "capability"},
		{"a capability with a line break", func(c *agent.Config) { c.Capabilities = []string{"a\nb"} }, "control character"},
		{"too many capabilities", func(c *agent.Config) { c.Capabilities = many(257) }, "257"},
		{"the longest capability, in characters",
			func(c *agent.Config) { c.Capabilities = []string{strings.Repeat("é", 128)} }, ""},
		{"one beyond it", func(c *agent.Config) { c.Capabilities = []string{strings.Repeat("é", 129)} }, "128"},
		{"too many labels", func(c *agent.Config) { c.Labels = labels }, "33"},
		{"a label without a key", func(c *agent.Config) { c.Labels = map[string]string{"": "x"} }, "label"},
		{"a label that is too long", func(c *agent.Config) { c.Labels = map[string]string{"k": strings.Repeat("x", 257)} },
			"256"},
		{"several faults", func(c *agent.Config) { c.ID, c.Slots = "", -1 }, "Slots"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := agent.Config{ID: "a1", Bus: broker}
				tt.change(&c)
				ctx, stop := context.WithCancel(context.Background())
				stop() // what can be used comes to its end at once
				err := agent.Run(ctx, c, nothing)
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("Run gives %v", err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("Run gives %v, want an error with %q", err, tt.want)
				case err != nil && strings.Contains(err.Error(), "secret"):
					t.Errorf("the error shows the URL: %v", err)
				}
			})
		})
	}
	if err := agent.Run(t.Context(), agent.Config{ID: "a1", Bus: broker}, nil); err == nil ||
		!strings.Contains(err.Error(), "Handler") {
		t.Errorf("without a handler Run gives %v", err)
	}
}

// The bounds of what is announced are those of the schema: rig.statuses fails for a
// heartbeat that breaks it.
func TestLargestHeartbeatFitsItsSchema(t *testing.T) {
	inRig(t, func(r *rig) {
		c := r.config()
		c.Slots = 2000
		for i := range 256 {
			c.Capabilities = append(c.Capabilities, strings.Repeat("é", 124)+fmt.Sprintf("%04d", i))
		}
		c.Labels = map[string]string{}
		for i := range 32 {
			c.Labels[strings.Repeat("é", 60)+fmt.Sprintf("%04d", i)] = strings.Repeat("é", 256)
		}
		r.runWith(c, work(time.Hour))
		r.expectActive("ready []")
	})
}
