package integration

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// answered is how many claims of an agent have had an answer, by its metrics.
func answered(t *testing.T, registry *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "taskbus_agent_claims_total" && m.GetLabel()[0].GetValue() != "unanswered" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// The exchange by which the coordinator speaks to agents is deleted under both. The
// coordinator declares it anew as soon as it has something to say; the agent, whose claims
// have no answer, binds its queue again and keeps what it works on: then it can be granted
// tasks, and told to stop.
func TestControlExchangeIsDeleted(t *testing.T) {
	t.Parallel()
	config, ids := pullers(1, 2)
	r := newRig(t, config)
	b := r.open()
	c := r.start(withToken)
	registry := prometheus.NewRegistry()
	m := r.member(b, agent.Config{ID: ids[0], Slots: 2, Pull: claiming(), Metrics: registry},
		func(ctx context.Context, task *agent.Task) (agent.Result, error) {
			if task.ID == "t-0" {
				return agent.Result{}, rest(ctx, 5*time.Minute)
			}
			return agent.Result{}, nil
		})
	b.offer(r.client, task("t-0", "build"))
	b.runs(t, "t-0", 1)
	r.broker.DeleteExchange(t, bus.ExchangeControl)
	eventually(t, patience, "a claim has no answer", func() (bool, string) {
		return len(m.log.find("a claim was not answered in time; is there a coordinator? Claims go on")) > 0, m.log.tail(3)
	})
	before := answered(t, registry)
	eventually(t, patience, "claims are answered again", func() (bool, string) {
		return answered(t, registry) > before, m.log.tail(3)
	})
	b.offer(r.client, task("t-1", "build"))
	b.end(t, "t-1")
	withdrawers["by HTTP"](r, c, "t-0")
	if e := b.end(t, "t-0"); !e.ByAgent || e.What != "cancelled" {
		t.Errorf("%+v", e)
	}
	if begun, _ := m.count(); begun != 2 || len(m.log.find("connected to the broker")) != 1 {
		t.Errorf("%d runs, want one of each of 2 tasks, in one session:\n%s", begun, m.log.tail(20))
	}
	m.retire()
	r.close(c, b, map[string]string{"t-0": "cancelled"})
}
