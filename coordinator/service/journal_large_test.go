package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/recent"
)

// TestLargeInputsAreRecorded: the text of quotas that is larger than a message may be is recorded as
// any, dispatching goes on, and the recording can be replayed.
func TestLargeInputsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet+"journal: {record_inputs: true}\n")
		quotas := quotasIn(t, limited)
		quotas.Source += strings.Repeat("# "+strings.Repeat("x", 998)+"\n", 9_000) // as of 90,000 groups, and read in no time
		r.service.controls.Under(r.service.config.Load().WithQuotas(quotas))
		r.start()
		defer r.close()
		r.tenSlots()
		for i := range 3 {
			r.task(fmt.Sprint("t-", i), "build", usage(10, 10, "rich"))
		}
		r.pass(time.Minute)
		if st := r.status(); st.Counters.Dispatched != 3 || r.service.sessions.Load() != 1 {
			t.Errorf("%d dispatched in %d sessions; log:\n%s", st.Counters.Dispatched, r.service.sessions.Load(), r.log)
		}
		r.replays(3)
	})
}

// TestJournalTooLarge: what must be in the journal and can never be sent ends the session; the
// next one leads.
func TestJournalTooLarge(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.pass(time.Second)
		before := r.service.current.Load()
		before.ledger.Inputs(make([]byte, bus.MaxBody+1)) // no message, and so not put into pieces
		r.pass(time.Minute)
		if after := r.service.current.Load(); after == nil || after == before ||
			!strings.Contains(r.log.String(), "write to the journal: message cannot be encoded") {
			t.Errorf("the session goes on, and writes nothing; log:\n%s", r.log)
		}
	})
}

// crowd is a fleet of agents that have joined, of which the record is larger than a message may be: as many as
// may, with the longest names, and as many capabilities as one may have, of eight times as many.
func crowd() (agentsYAML string, joined *coordinator.Joined) {
	const most = 256
	capabilities := make([]string, 8*most)
	for i := range capabilities {
		capabilities[i] = fmt.Sprintf("c%04d", i)
	}
	joined = &coordinator.Joined{Agents: make([]coordinator.AgentSpec, 10_000)}
	for i := range joined.Agents {
		joined.Agents[i] = coordinator.AgentSpec{
			ID: coordinator.AgentID(fmt.Sprintf("worker-%0121d", i)), Queue: fmt.Sprintf("work.%0250d", i),
			Capabilities:  capabilities[i%8*most:][:most],
			MaxConcurrent: 2, Rank: 3, HealthCheckInterval: time.Minute, Timeout: time.Hour, AcceptTimeout: time.Hour,
		}
	}
	return fmt.Sprintf(`
agents: {}
task_routing: {build: {required_capabilities: [c0255]}}
global_settings: {broker_consumer_timeout_seconds: 7200}
discovery: {enabled: true, agents: ["worker-*"], capabilities: [%s], queues: ["work.*"], max_agents: 10000, health_check_interval: 60, timeout_seconds: 3600, accept_timeout_seconds: 3600}
`, strings.Join(capabilities, ", ")), joined
}

// writes has the journal say this, by a leader that has led for a moment.
func (r *rig) writes(records ...coordinator.Record) {
	r.t.Helper()
	reader := journal.NewReader()
	take := func(body []byte) {
		if _, err := reader.Take(0, body); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, m := range r.broker.Messages(bus.StreamJournal) {
		take(m.Body)
	}
	claim := journal.Claim(reader, time.Now(), journal.Epoch{Nonce: "moment", Instance: "taskbus@before"})
	take(claim)
	w, err := journal.NewWriter(reader)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, body := range append([][]byte{claim}, w.Batch(time.Now(), records)...) {
		r.send(bus.StreamJournal, string(body))
	}
}

// TestLargeSnapshotIsWhole: a part of a snapshot that is larger than a message may be is written, in pieces, and
// a leader that begins with it knows all that it says.
func TestLargeSnapshotIsWhole(t *testing.T) {
	agentsYAML, joined := crowd()
	if size := len(journal.AppendBatch(nil, journal.Header{At: time.Unix(1, 0)},
		[]coordinator.Record{joined})); size <= bus.MaxBody {
		t.Fatalf("its record has %d bytes, no more than the %d of a message: this shows nothing", size, bus.MaxBody)
	}
	one, last := joined.Agents[0], joined.Agents[len(joined.Agents)-1]
	after(t, agentsYAML, func(first *rig) {
		first.writes(joined)    // and leads no more
		first.pass(time.Minute) // until it leads again, and a snapshot is written
		if at := first.status().Journal.SnapshotOffset; at < 0 {
			t.Fatalf("no snapshot is complete; log:\n%s", first.log)
		}
		first.reportTasks(string(one.ID))
		for _, id := range []string{"t-1", "t-2"} {
			first.task(id, "build", "")
		}
		if n := len(first.in(one.Queue)); n != 2 {
			t.Fatalf("%d tasks are in the queue of the first agent; log:\n%s", n, first.log)
		}
		first.result(string(one.ID), "t-1", "succeeded", "")
		for range journaling.SnapshotEvery/time.Minute + 1 {
			first.reportTasks(string(one.ID), "t-2")
			first.pass(time.Minute)
		}
		first.broker.Trim(bus.StreamJournal, first.status().Journal.SnapshotOffset)
	}, func(second *rig) {
		second.start()
		second.pass(5 * time.Second)
		if st := second.status(); !st.Readiness.Ready || len(st.Agents) != len(joined.Agents) {
			t.Fatalf("%+v with %d agents; log:\n%s", st.Readiness, len(st.Agents), second.log)
		}
		for spec, leased := range map[*coordinator.AgentSpec]int{&one: 1, &last: 0} {
			if a := second.agent(string(spec.ID)); !a.Discovered || a.Queue != spec.Queue ||
				!slices.Equal(a.Capabilities, spec.Capabilities) || a.Leased != leased {
				t.Errorf("%s: queue %s, %d capabilities, %d tasks", a.ID, a.Queue, len(a.Capabilities), a.Leased)
			}
		}
		second.task("t-1", "build", "")
		if n := second.status().Counters.Duplicates; n != 1 {
			t.Errorf("%d duplicates, want t-1 known", n)
		}
		second.result(string(one.ID), "t-2", "succeeded", "")
		if got := second.stateOf("t-2"); got != recent.Succeeded {
			t.Errorf("t-2 is %q", got)
		}
	})
}
