package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestRefusedAsAFullPass: what a choice says of the agents that are out, by sets, is what a pass over all of
// them says, whatever state they are in, and what the dispatch carries.
func TestRefusedAsAFullPass(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{1, 5, 16, 63, 64, 65, 150}).Draw(rt, "agents")
		var crew []*specBuilder
		for i := range n {
			w := worker(coordinator.AgentID(fmt.Sprintf("a%03d", i))).slots(rapid.IntRange(1, 2).Draw(rt, "slots"))
			if can := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"go", "web"}), rapid.ID).Draw(rt, "can"); len(can) > 0 {
				w.can(can...)
			}
			if rapid.IntRange(0, 4).Draw(rt, "pulls") == 0 {
				w.pulls(coordinator.PullShared)
			}
			crew = append(crew, w)
		}
		r := boot(t, policyOf(crew...).route("go", "go").route("both", "go", "web").set(func(s *coordinator.Settings) {
			s.SuspectIntervals, s.StaleAfter = 3, 8*interval
		}))
		common := rapid.IntRange(0, 5).Draw(rt, "what most are")
		for _, w := range crew {
			state := common
			if rapid.Bool().Draw(rt, "another") {
				state = rapid.IntRange(0, 6).Draw(rt, "state")
			}
			b := beat(w.ID)
			switch state {
			case 1:
				b.active(w.MaxConcurrent)
			case 2:
				b.load(0.95)
			case 3:
				b.status(coordinator.StatusBusy)
			case 4:
				continue // never seen
			case 5:
				b.status(coordinator.StatusOffline)
			}
			r.hear(b)
			if state == 6 {
				r.order(w.ID, coordinator.OrderCordon)
			}
		}
		if rapid.Bool().Draw(rt, "some fall silent") {
			r.pass(4 * interval)
			for _, w := range crew {
				if rapid.Bool().Draw(rt, "is heard") {
					r.hear(beat(w.ID))
				}
			}
		}
		for _, w := range crew {
			if rapid.IntRange(0, 3).Draw(rt, "is ejected") == 0 {
				r.Trip(r.now, w.ID, "go")
			}
		}
		some := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) coordinator.AgentID {
			return rapid.SampledFrom(crew).
				Draw(rt, "some").ID
		}), 0, 3)
		for i := range 4 {
			b := job(numbered(i)).kind(rapid.SampledFrom([]string{"any", "go", "both"}).Draw(rt, "type")).
				not(coordinator.SortedUnique(slices.Clone(some.Draw(rt, "excluded")))...).prefers(some.Draw(rt, "preferred")...).
				widens(rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(rt, "widens after"))
			b.AcceptedAt = r.now
			tried := some.Draw(rt, "tried")
			engine.CheckRefused(rt, r.Engine, &b.Task, tried, rapid.Bool().Draw(rt, "alone"))
			before := len(r.dispatches)
			if r.assign(b); len(r.dispatches) == before {
				continue
			}
			d := r.latest().Decision
			sum := d.Eligible + d.WithoutQuota
			for _, n := range d.Refused {
				sum += n
			}
			if sum != n || d.Fleet != n || len(d.Refusals) > coordinator.MaxNamed {
				rt.Fatalf("of %d agents %d are eligible, and %v are refused; %d are named", n, d.Eligible, d.Refused,
					len(d.Refusals))
			}
			r.confirm(r.latest().Handle)
		}
		engine.CheckIndexes(rt, r.Engine)
	})
}

// TestChoiceNamesWhoIsOut: all of them where they are few, else those that have the capabilities.
func TestChoiceNamesWhoIsOut(t *testing.T) {
	for lacking, want := range map[int]string{
		2:  "c overloaded, b full, x0 lacks_capability, x1 lacks_capability",
		20: "c overloaded, b full", // the nearest first
	} {
		crew := []*specBuilder{worker("a").can("go"), worker("b").can("go"), worker("c").can("go")}
		for i := range lacking {
			crew = append(crew, worker(coordinator.AgentID(fmt.Sprint("x", i))))
		}
		r := ready(t, policyOf(crew...).route("go", "go"))
		r.hear(beat("b").active(1))
		r.hear(beat("c").load(1))
		d := r.give(job("t").kind("go")).Decision
		var got []string
		for _, refusal := range d.Refusals {
			got = append(got, fmt.Sprint(refusal.Agent, " ", refusal.Why))
		}
		if strings.Join(got, ", ") != want || d.Refused[coordinator.LacksCapability] != lacking ||
			d.Refused[coordinator.Full] != 1 || d.Refused[coordinator.Overloaded] != 1 {
			t.Errorf("%d lack it: named %v, want %s; refused %v", lacking, got, want, d.Refused)
		}
	}
}

// TestAloneAndClaiming: an agent that claims is not eligible for a task that must be alone, though it has
// nothing in hand: it may have it when it claims.
func TestAloneAndClaiming(t *testing.T) {
	r := ready(t, policyOf(worker("a").pulls(coordinator.PullShared)))
	d, text := r.ExplainAlone(r.now, &job("t").Task)
	if text != "" {
		t.Fatal(text)
	}
	if d.Eligible != 0 || d.Refused[coordinator.Pulling] != 1 {
		t.Errorf("%d eligible, refused %v", d.Eligible, d.Refused)
	}
}
