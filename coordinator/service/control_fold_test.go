package service

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// crowded is a coordinator that follows, with a team of 1,000 agents in quotas.yaml; it is not run,
// so that the test may fold.
func crowded(t testing.TB) *Service {
	t.Helper()
	var text strings.Builder
	text.WriteString(
		"pool: {limits: {total_tokens: {amount: 1000000, per: month}}}\ngroups:\n  - {id: team, weight: 1}\nagents:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - {id: a%d, group_id: team}\n", i)
	}
	return servedBy(t, text.String())
}

// servedBy is a coordinator that follows, with these quotas; it is not run, so that the test may fold.
func servedBy(t testing.TB, text string) *Service {
	t.Helper()
	q, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(quotaFleet), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Config: c.WithQuotas(q), ConfigPath: "agents.yaml", Bus: membus.New(),
		Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New()
	e.Follow()
	e.Apply(epoch, coordinator.PolicyChanged{Policy: s.forgetControls()}, nil)
	s.loop.engine = e
	return s
}

var epoch = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

// registered is the record of an agent that comes, or goes.
func registered(i int, comes bool) *coordinator.QuotaControlled {
	one := coordinator.QuotaControl{Kind: coordinator.ControlAgent, Target: fmt.Sprint("r", i),
		Value: `{"group_id":"team"}`}.Named()
	if comes {
		return &coordinator.QuotaControlled{Set: []coordinator.QuotaControl{one}}
	}
	return &coordinator.QuotaControlled{Removed: []string{one.ID}}
}

// used is a call of so many tokens, from the reservation to its end.
func used(i int, at time.Time, tokens int64) (records []coordinator.Record) {
	key := coordinator.KeyOf(coordinator.TaskID(fmt.Sprint("call-", i)))
	amounts := coordinator.Amounts{coordinator.DimTotalTokens: tokens}
	return []coordinator.Record{
		&coordinator.QuotaReserved{Key: key, Group: "team", Agent: "a1", Amounts: amounts, At: at, Call: true,
			Until: at.Add(time.Minute)},
		&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaSettled, Used: amounts, At: at},
	}
}

// 1,000 agents come, and go again: 2,000 records. The configuration with them is worked out when a call
// is to be charged, and not 2,000 times.
func TestFoldingControlsWorksOutOnce(t *testing.T) {
	s := crowded(t)
	before, at := s.controls.WorkedOut(), epoch
	for i := range 2000 {
		at = at.Add(100 * time.Millisecond)
		s.foldRecord(at, registered(i%1000, i < 1000))
		if n := len(s.loop.engine.QuotaControls()); n != min(i+1, 1999-i) {
			t.Fatalf("%d agents are registered after %d records, want %d", n, i+1, min(i+1, 1999-i))
		}
	}
	for _, r := range used(0, at, 100) {
		s.foldRecord(at, r)
	}
	if n := s.controls.WorkedOut() - before; n > 2 { // once for those that came, once for those that went
		t.Errorf("worked out %d times, want at most 2", n)
	}
	if q := s.config.Load().Policy().Quotas; len(q.Nodes) != 1002 { // the pool, the team and those of the file
		t.Errorf("%d nodes are left, want 1002", len(q.Nodes))
	}
}

// Changes that wait to be worked out change nothing: putting it off leads to the same books, to the unit,
// as working them out record by record, whatever comes between.
func TestFoldingControlsLaterGivesTheSameBooks(t *testing.T) {
	type entry struct {
		after time.Duration
		r     coordinator.Record
	}
	var story []entry
	add := func(r ...coordinator.Record) {
		for _, one := range r {
			story = append(story, entry{7 * time.Second, one})
		}
	}
	set := func(key, value string) *coordinator.QuotaControlled {
		return &coordinator.QuotaControlled{
			Set: []coordinator.QuotaControl{coordinator.QuotaControl{Kind: coordinator.ControlSet, Target: "pool/team/a1",
				Key: key, Value: value}.Named()}}
	}
	for i := range 5 {
		add(registered(i, true))
	}
	add(registered(2, false), registered(2, true), set("weight", "9"), set("total_tokens.amount", "5000"))
	at := epoch.Add(time.Duration(len(story)+1) * 7 * time.Second)
	add(used(1, at, 900)...)
	add(registered(6, true), registered(7, true), set("total_tokens.amount", "none"), registered(6, false))
	add(used(2, at.Add(time.Minute), 3000)...) // far beyond a1's share of 1,000,000/1,006: lent
	add(registered(8, true), registered(9, true), registered(8, false))

	images := make([][]coordinator.Record, 2)
	worked := make([]uint64, 2)
	for way, each := range []bool{true, false} {
		s, now := crowded(t), epoch
		before := s.controls.WorkedOut()
		for _, x := range story {
			now = now.Add(x.after)
			s.foldRecord(now, x.r)
			if each {
				s.foldControls()
			}
		}
		s.foldControls()
		s.loop.engine.Image(now).Records(func(r coordinator.Record) bool {
			images[way] = append(images[way],
				r)
			return true
		})
		worked[way] = s.controls.WorkedOut() - before
	}
	if !reflect.DeepEqual(images[0], images[1]) {
		t.Errorf("record by record:\n%s\nput off:\n%s", recordsText(images[0]), recordsText(images[1]))
	}
	if worked[1] >= worked[0] {
		t.Errorf("worked out %d times, record by record %d times: nothing was put off", worked[1], worked[0])
	}
}

func recordsText(list []coordinator.Record) (text string) {
	for _, r := range list {
		text += fmt.Sprintf("%T%+v\n", r, r)
	}
	return text
}

// A standby's answer includes what the leader answered a moment ago.
func TestStandbyKnowsOfRegistrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, quotaFleet)
		first.limit()
		first.start()
		second := newRig(t, quotaFleet)
		second.limit()
		second.broker = first.broker
		second.service.options.Bus, second.service.options.Instance = first.broker, "taskbus@second"
		second.start()
		for i := range 5 {
			if _, err := first.service.RegisterQuota(context.Background(),
				view.QuotaEntry{Agent: true, ID: fmt.Sprint("n", i), Entry: `{"group_id":"poor"}`}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := len(second.standing()); n != i+1 {
				t.Errorf("%d stand at the one that stands by, want %d", n, i+1)
			}
			id := fmt.Sprint("pool/poor/n", i)
			if n := second.quotas(view.QuotaSelection{Node: id}); n[id].ID != id {
				t.Errorf("the one that stands by does not know %s", id)
			}
		}
		second.close()
		first.close()
	})
}

// BenchmarkFoldRegistrations folds 1,000 registrations, while nothing is used and after something was.
func BenchmarkFoldRegistrations(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(map[bool]string{false: "nothing used", true: "after a call"}[busy], func(b *testing.B) {
			for b.Loop() {
				s, at := crowded(b), epoch
				if busy {
					for _, r := range used(0, at, 100) {
						s.foldRecord(at, r)
					}
				}
				for i := range 1000 {
					at = at.Add(100 * time.Millisecond)
					s.foldRecord(at, registered(i, true))
				}
				s.foldControls()
			}
		})
	}
}
