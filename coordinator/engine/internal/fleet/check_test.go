package fleet

import (
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/invariant"
)

type team = Fleet[*job, *worker]

// crew is the agents a and b with two slots each, of which a has the task t, and c, which has left.
func crew() *team {
	f := New[*job, *worker]()
	join := func(before *worker) *worker { return &worker{} }
	specs := func(ids ...coordinator.AgentID) (list []coordinator.AgentSpec) {
		for _, id := range ids {
			list = append(list, coordinator.AgentSpec{ID: id, Queue: "agent." + string(id), MaxConcurrent: 2})
		}
		return list
	}
	f.Adopt(specs("a", "b", "c"), coordinator.Settings{MaxLoad: 1}, join)
	f.Adopt(specs("b", "a"), coordinator.Settings{MaxLoad: 1}, join)
	for _, m := range f.Agents {
		m.State, m.Report.Available = coordinator.AgentOnline, 2
		f.Refresh(m)
	}
	f.Take(f.ByID["a"], &job{id: "t"}, false)
	return &f
}

// TestCheck breaks what is kept of the agents in one place at a time.
func TestCheck(t *testing.T) {
	const (
		account, slots = invariant.AgentAccount, invariant.AgentSlots
		ready, index   = invariant.AgentReady, invariant.FleetIndex
	)
	for name, tc := range map[string]struct {
		spoil func(f *team, a *worker)
		want  invariant.Name
		id    string
	}{
		"nothing":      {func(*team, *worker) {}, 0, ""},
		"number":       {func(_ *team, a *worker) { a.Number = 1 }, index, "a"},
		"id":           {func(f *team, _ *worker) { delete(f.ByID, "a") }, index, "a"},
		"queue":        {func(f *team, _ *worker) { delete(f.ByQueue, "agent.b") }, index, "b"},
		"order":        {func(f *team, a *worker) { a.Spec.ID, f.ByID["z"] = "z", a }, index, "b"},
		"left":         {func(f *team, _ *worker) { f.Left["c"].Number = 2 }, index, "c"},
		"left, taken":  {func(f *team, _ *worker) { f.Left["c"].TakenQueue = "agent.c" }, index, "c"},
		"left, counts": {func(f *team, _ *worker) { f.Left["c"].Credit = 1 }, account, "c"},
		"place":        {func(_ *team, a *worker) { a.Open[0].place = 2 }, account, "t"},
		"uncovered":    {func(f *team, a *worker) { a.Uncovered++; f.Refresh(a) }, account, "a"},
		"covered":      {func(_ *team, a *worker) { a.Open[0].Covered = true }, account, "a"},
		"credit":       {func(_ *team, a *worker) { a.Credit = -1 }, account, "a"},
		"view":         {func(f *team, _ *worker) { f.Views[1].Free-- }, slots, "b"},
		"no refresh":   {func(_ *team, a *worker) { a.Report.Load = 0.5 }, slots, "a"},
		"in flight":    {func(f *team, a *worker) { a.Uncovered = -1; f.Refresh(a) }, slots, "a"},
		"ready":        {func(f *team, _ *worker) { f.Ready.Remove(1) }, ready, "b"},
		"not ready":    {func(f *team, a *worker) { a.QueueFull = true }, ready, "a"},
	} {
		f := crew()
		tc.spoil(f, f.ByID["a"])
		found := f.CheckLeft()
		for n := range f.Agents {
			found.Add(f.Check(n))
		}
		said := ""
		for _, v := range found {
			if v.Invariant == tc.want && v.Text != "" && v.Count > 0 {
				said = v.IDs[0]
			}
		}
		if said != tc.id {
			t.Errorf("%s: found %+v, want %s of %q", name, found, tc.want, tc.id)
		}
	}
}

func TestCheckTakeBacks(t *testing.T) {
	f := crew()
	f.ByID["b"].TakenQueue = "agent.b"
	if found := f.CheckTakeBacks(); len(found) != 1 || found[0].Invariant != invariant.TakeBacks {
		t.Errorf("found %+v, want a queue that is taken back and not counted", found)
	}
	if f.TakeBacks = 1; f.CheckTakeBacks() != nil {
		t.Errorf("found %+v, and it is counted", f.CheckTakeBacks())
	}
}
