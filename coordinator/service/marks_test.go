package service

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/schemas"
)

// TestPastResults: a mark that another vouches for parts what was announced from what
// may not have been.
func TestPastResults(t *testing.T) {
	p := newPastResults()
	result := func(id string) {
		if len(p.add(coordinator.Result{Task: coordinator.TaskID(id)})) > 0 {
			t.Fatalf("%s pushes others out", id)
		}
	}
	announced := func(id, vouchesFor, want string) {
		t.Helper()
		if got := fmt.Sprint(tasks(p.mark(id, vouchesFor))); got != want {
			t.Errorf("mark %s vouches for %s: announced %s, want %s", id, vouchesFor, got, want)
		}
	}
	result("a")
	announced("1", "", "[]")
	result("b")
	announced("2", "0", "[]") // of a mark before our time nothing follows
	result("c")
	announced("3", "2", "[a b]")
	result("d")
	announced("4", "1", "[]") // known already
	announced("5", "3", "[c]")
	if got := fmt.Sprint(tasks(p.results)); got != "[d]" {
		t.Errorf("%s may not have been announced, want [d]", got)
	}
	for i := range maxPast - 1 {
		result(fmt.Sprint(i))
	}
	if n := len(p.add(coordinator.Result{})); n != maxPast/2 || len(p.results) != maxPast/2+1 {
		t.Errorf("one too many: %d kept no longer, %d kept", n, len(p.results))
	}
}

func tasks(results []coordinator.Result) (ids []coordinator.TaskID) {
	for _, r := range results {
		ids = append(ids, r.Task)
	}
	return ids
}

// TestMarks: while results come there is a mark each second, each behind what it
// vouches for; when no more come, one last mark covers the rest.
func TestMarks(t *testing.T) {
	var m marks
	next := func() string { // what it vouches for
		id, vouchesFor, ok := m.next()
		if !ok {
			return "nothing"
		}
		defer m.read(id, "fence")
		if _, _, again := m.next(); again {
			t.Error("two marks are on their way")
		}
		if vouchesFor == "fence" {
			return vouchesFor
		}
		return "the one before"
	}
	var got []string
	m.came()
	got = append(got, next()) // the fence was not read back yet
	m.read("fence", "fence")
	got = append(got, next(), next())
	m.came()
	got = append(got, next(), next(), next())
	want := []string{"nothing", "fence", "nothing", "the one before", "the one before", "nothing"}
	if !slices.Equal(got, want) {
		t.Errorf("vouched for %q, want %q", got, want)
	}
}

// TestEndsOfTheTimeBetween: one coordinator stops, agents go on, another starts. What
// the first has announced is not announced again; what came in between is.
func TestEndsOfTheTimeBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wide)
		r.start()
		bindAll(r)
		r.reportTasks("a1")
		for i := range 3 {
			r.task(fmt.Sprint("t-", i), "build", "")
		}
		r.pass(time.Second)
		done := func(i int) {
			r.result("a1", fmt.Sprint("t-", i), "succeeded", fmt.Sprintf(`,"dispatch_id":"t-%d.1"`, i))
		}
		done(0)
		r.pass(4 * time.Second) // and the marks behind it
		r.close()
		broker := r.broker
		r = newRig(t, wide)
		r.broker, r.service.options.Bus = broker, broker
		r.connect()
		r.others = append(r.others, r.outside)
		done(1)
		r.pass(time.Second)
		r.start()
		defer r.close()
		r.pass(time.Second)
		done(2)
		r.pass(4 * time.Second)
		var ended []string
		for _, m := range r.events(schemas.TaskCompleted) {
			ended = append(ended, fmt.Sprint(m.fields["task_id"]))
		}
		if !slices.Equal(ended, []string{"t-0", "t-1", "t-2"}) {
			t.Errorf("announced are %v, want each of the three once, in this order", ended)
		}
		marks := 0
		for _, d := range r.broker.Messages(bus.StreamResult) {
			if d.Type == typeFence {
				marks++
			}
		}
		if marks > 2+6 { // a fence each, and at most three behind each result that came alone
			t.Errorf("%d marks for three results", marks)
		}
	})
}
