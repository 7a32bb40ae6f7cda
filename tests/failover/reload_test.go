package failover

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// What quotas.yaml says in these tests: a pool, with a group or without, or with one limit more.
const (
	poolAlone = `
pool:
  limits: {total_tokens: {amount: 100000, per: year}}
`
	withAlpha = poolAlone + `
groups:
  - {id: alpha, limits: {total_tokens: {amount: 5000, per: year, borrow: 0}}}
`
	withInputs = `
pool:
  limits: {total_tokens: {amount: 100000, per: year}, input_tokens: {amount: 2000, per: year}}
`
)

// TestUsageOutlastsOtherQuotas: the file changes, or a control does, and what was used before stays
// as it was counted then. The only coordinator is killed and starts again, under the file as it is by
// then: it knows of every budget what was known before, to the unit.
func TestUsageOutlastsOtherQuotas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		file string
		live func(o *onlyOne)
		used map[string]float64 // by node and dimension, live
	}{
		{"a group leaves the file and comes back", withAlpha, func(o *onlyOne) {
			o.consumes("alpha", 100)
			o.save(poolAlone, "pool/alpha", -1)
			o.consumes("alpha", 1000) // as no group's
			o.save(withAlpha, "pool/alpha", 5000)
			o.consumes("alpha", 7)
		}, map[string]float64{"pool/alpha total_tokens": 107, "pool total_tokens": 1107}},
		{"a limit is added", poolAlone, func(o *onlyOne) {
			o.consumes("alpha", 3000)
			o.save(withInputs, "pool", 100_000)
			o.consumes("alpha", 1000) // of 2000 from here on
		}, map[string]float64{"pool total_tokens": 4000, "pool input_tokens": 999}},
		{"a group is removed by a control and comes back", poolAlone, func(o *onlyOne) {
			o.alpha("add-group", "alpha", "limits.total_tokens.amount=5000", "limits.total_tokens.per=year")
			o.consumes("alpha", 600)
			o.alpha("remove-group", "alpha")
			o.consumes("alpha", 50) // as no group's
			o.alpha("add-group", "alpha", "limits.total_tokens.amount=5000", "limits.total_tokens.per=year")
			o.consumes("alpha", 7)
		}, map[string]float64{"pool/alpha total_tokens": 607, "pool total_tokens": 657}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, brokertest.Vhost(t).URL)
			o := &onlyOne{rig: r, file: filepath.Join(filepath.Dir(r.config), "quotas.yaml")}
			o.write(c.file)
			o.process = r.launch("the only one", r.url)
			o.awaitState("active")
			c.live(o)
			before := o.books()
			for id, want := range c.used {
				b := before[id]
				if b.Used != want {
					t.Errorf("live %s has %+v, want %v used", id, b, want)
				}
			}
			o.awaitJournal()
			o.kill()
			o.process = r.launch("the one that starts again", r.url)
			o.awaitState("active")
			if after := o.books(); !reflect.DeepEqual(after, before) {
				t.Errorf("after the restart\n  %+v, before\n  %+v", after, before)
			}
			if s := o.status(); s.Audit.Violations > 0 {
				t.Errorf("the auditor has found %+v", s.Audit.Found)
			}
		})
	}
}

// onlyOne is a coordinator without standbys, and its quotas.yaml.
type onlyOne struct {
	*rig
	*process
	file  string
	calls int
}

func (o *onlyOne) write(text string) {
	o.t.Helper()
	if err := os.WriteFile(o.file, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// save changes the file, and waits until it is in force (the node has this limit of total tokens; -1:
// there is none) and the journal has a snapshot of that moment.
func (o *onlyOne) save(text, node string, limit float64) {
	o.t.Helper()
	snapshot := o.status().Journal.SnapshotOffset
	o.write(text)
	o.eventually(patience, "the file is taken over", func() (bool, string) {
		b, s := o.budget(node), o.status().Journal.SnapshotOffset
		return b.Limit == limit && s > snapshot, fmt.Sprintf("%+v, snapshot at %d, before at %d", b, s, snapshot)
	})
}

// awaitJournal waits until the broker knows that the journal is not empty: in the first seconds of a
// stream it may say that it is, and then all of it is read, from the beginning.
func (o *onlyOne) awaitJournal() {
	o.t.Helper()
	conn := o.dial()
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		o.t.Fatal(err)
	}
	o.eventually(patience, "the broker knows of the journal's messages", func() (bool, string) {
		q, err := ch.QueueDeclarePassive(bus.StreamJournal, true, false, false, false, nil)
		return err == nil && q.Messages > 0, fmt.Sprint(q.Messages, " messages, error ", err)
	})
}

// alpha changes the group by command line.
func (o *onlyOne) alpha(args ...string) {
	o.t.Helper()
	o.cli(o.process, append([]string{"quota"}, args...)...)
}

// consumes makes a call of a group that takes so many tokens, one of them of output.
func (o *onlyOne) consumes(group string, tokens int) {
	o.t.Helper()
	o.calls++
	status, text := o.post("/v1/quota/consume", gatewayToken,
		fmt.Sprintf(`{"reservation_id":"u-%d","agent_id":"a1","group_id":%q,"input_tokens":%d,"output_tokens":1}`, o.calls,
			group, tokens-1))
	if status != http.StatusOK {
		o.t.Fatalf("%d tokens of %s: %d %s", tokens, group, status, strings.TrimSpace(text))
	}
}

// books are the budgets of all nodes, by node and dimension.
func (o *onlyOne) books() map[string]view.QuotaBudget {
	o.t.Helper()
	var q view.Quotas
	o.read("/v1/quota", &q)
	all := make(map[string]view.QuotaBudget)
	for _, n := range q.Nodes {
		for _, b := range n.Budgets {
			all[n.ID+" "+b.Dimension] = b
		}
	}
	return all
}
