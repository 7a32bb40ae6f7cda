package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// However many requests there are at the same time, the engine's state is copied once; and a request after
// an event sees it.
func TestThoseWhoAskAtOnceShareACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.start()
		defer r.close()
		hold := make(chan struct{})
		r.service.loop.enqueue(envelope{call: func(time.Time) { <-hold }})
		synctest.Wait()

		const asked = 50
		copies := make(chan coordinator.Snapshot, asked)
		ask := func() {
			snap, err := r.service.snapshot(context.Background())
			if err != nil {
				t.Error(err)
			}
			copies <- snap
		}
		for range asked {
			go ask()
		}
		synctest.Wait()
		close(hold)
		first := <-copies
		for range asked - 1 {
			if c := <-copies; &c.Agents[0] != &first.Agents[0] {
				t.Fatal("two copies for requests of one moment")
			}
		}
		r.service.loop.post(0, coordinator.AgentReported{Report: coordinator.AgentReport{Agent: "a1",
			Status: coordinator.StatusReady, Available: 10, Timestamp: time.Now()}})
		go ask()
		if c := <-copies; c.Agents[0].Status != coordinator.StatusReady {
			t.Errorf("asked after its heartbeat: %s", c.Agents[0].Status)
		}
		again, given := make(chan struct{}), make(chan error, 1)
		r.service.loop.enqueue(envelope{call: func(time.Time) { <-again }})
		ended, giveUp := context.WithCancel(context.Background())
		go func() {
			_, err := r.service.snapshot(ended)
			given <- err
		}()
		synctest.Wait()
		giveUp()
		if err := <-given; err == nil {
			t.Error("a request that was given up has an answer")
		}
		close(again)
	})
}

// A read of a whole tree of quotas leaves the loop to others between its pages, whatever it is asked by.
func TestLargeReadsOfQuotasAreMadeInTurns(t *testing.T) {
	const page, agents = 500, 5000
	var text strings.Builder
	text.WriteString("pool: {limits: {total_tokens: {amount: 1000000, per: day}}}\ngroups: [{id: g}, {id: h}]\n")
	text.WriteString(
		"providers: [{provider: openai, share: by_weight, groups: [{group: g}], limits: {requests: {rate: 1000, per: " +
			"second}}}]\nagents:\n")
	for i := range agents {
		fmt.Fprintf(&text, "  - {id: a%d, group_id: g}\n", i)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.under(text.String())
		var turns atomic.Int64 // of the loop: it looks at the clock once in each
		now := r.service.loop.now
		r.service.loop.now = func() time.Time { turns.Add(1); return now() }
		r.start()
		defer r.close()
		for name, of := range map[string]view.QuotaSelection{
			"all": {}, "a provider": {Provider: "openai"}, "a group": {Group: "g"},
		} {
			of.Limit = httpapi.MaxQuotaLimit
			before := turns.Load()
			q, err := r.service.Quotas(context.Background(), of)
			if err != nil {
				t.Fatal(err)
			}
			if n := int(turns.Load() - before); len(q.Nodes) < agents || n < len(q.Nodes)/page {
				t.Errorf("%s: %d nodes in %d turns of the loop, want one for %d", name, len(q.Nodes), n, page)
			}
		}
	})
}
