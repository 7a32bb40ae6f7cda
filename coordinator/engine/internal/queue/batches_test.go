package queue

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// three is of at most three tasks, of which the first waits for ten seconds.
var three = coordinator.Batch{MaxSize: 3, MaxWait: 10 * time.Second}

// byName has tasks, which are strings here, go in the order of their names, of kinds that are strings as well.
func byName() *Batches[string, string] {
	b := NewBatches[string](cmp.Compare[string])
	return &b
}

func TestWhichTypesAreBatched(t *testing.T) {
	b := byName()
	b.Install(map[string]coordinator.Route{
		"three": {Batch: three}, "one": {Batch: coordinator.Batch{MaxSize: 1}}, "none": {},
	})
	for taskType, want := range map[string]bool{"three": true, "one": false, "none": false, "unknown": false} {
		limits, batched := b.Limits(taskType)
		if batched != want || batched && limits != three {
			t.Errorf("%s: batched %v, of %+v", taskType, batched, limits)
		}
	}
	b.Install(nil)
	if _, batched := b.Limits("three"); batched {
		t.Error("the routes before still count")
	}
}

// TestGathering: the first opens a batch for 10 s, but for no longer than it may wait itself, and others have
// what is left of that.
func TestGathering(t *testing.T) {
	second := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
	tests := []struct {
		name     string
		first    time.Time // that this opens the batch; zero: none does
		mayWait  time.Time
		deadline time.Time
		closes   time.Time // zero: it does not gather
	}{
		{"the first of a batch", time.Time{}, second(60), time.Time{}, second(10)},
		{"it may wait for 4 s", time.Time{}, second(4), time.Time{}, second(4)},
		{"it may not wait", time.Time{}, second(0), time.Time{}, time.Time{}},
		{"a deadline in twice 10 s", time.Time{}, second(60), second(20), second(10)},
		{"a deadline in less", time.Time{}, second(60), second(19.9), time.Time{}},
		{"the second, 7 s later", second(-7), second(60), time.Time{}, second(3)}, // 10 − 7
		{"a deadline in twice 3 s", second(-7), second(60), second(6), second(3)},
		{"a deadline in less than that", second(-7), second(60), second(5.9), time.Time{}},
		{"it may wait for less than the first", second(-7), second(1), time.Time{}, second(3)}, // its own timer ends that
		{"the batch closes now", second(-10), second(60), time.Time{}, time.Time{}},
	}
	for _, tt := range tests {
		b := byName()
		if !tt.first.IsZero() {
			b.Gather(tt.first, "kind", "first", three, second(60), time.Time{})
		}
		before, _ := b.Gathering("kind")
		closes, full, gathers := b.Gather(epoch, "kind", "it", three, tt.mayWait, tt.deadline)
		members, until := b.Gathering("kind")
		if gathers == tt.closes.IsZero() || full || !closes.Equal(tt.closes) || gathers && !until.Equal(closes) {
			t.Errorf("%s: %v until %v, full %v", tt.name, gathers, closes, full)
		}
		if slices.Contains(members, "it") != gathers || len(members) < len(before) {
			t.Errorf("%s: %v gather", tt.name, members)
		}
	}
}

func gatherAll(b *Batches[string, string], kind string, tasks ...string) (full bool) {
	for _, x := range tasks {
		_, full, _ = b.Gather(epoch, kind, x, three, epoch.Add(time.Hour), time.Time{})
	}
	return full
}

// TestClosing: a batch is full with three, and is handed over in its order; the next one is another.
func TestClosing(t *testing.T) {
	b := byName()
	if gatherAll(b, "kind", "c", "a") {
		t.Error("full with two of three")
	}
	if !gatherAll(b, "kind", "b") {
		t.Error("not full with three of three")
	}
	if got := b.Close("kind"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("closed with %v", got)
	}
	if gatherAll(b, "kind", "d", "e"); len(b.gathering) != 1 {
		t.Fatalf("%d kinds gather", len(b.gathering))
	}
	b.Leave("kind", "d")
	members, closes := b.Gathering("kind")
	if !slices.Equal(members, []string{"e"}) || !closes.Equal(epoch.Add(three.MaxWait)) {
		t.Errorf("%v gather until %v", members, closes)
	}
	if b.Leave("kind", "e"); len(b.gathering) != 0 {
		t.Error("a kind of which none gathers is kept")
	}
}

func TestClosingAll(t *testing.T) {
	b := byName()
	gatherAll(b, "one", "d", "b")
	gatherAll(b, "two", "e")
	gatherAll(b, "three", "c", "a")
	want := [][]string{{"a", "c"}, {"b", "d"}, {"e"}}
	if got := b.CloseAll(); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("closed %v, want %v", got, want)
	}
	gatherAll(b, "one", "a")
	b.Clear()
	if got := b.CloseAll(); len(got) != 0 {
		t.Errorf("after Clear %v gather", got)
	}
}

// TestCheckOfBatches: what gathers twice, or should not, is found.
func TestCheckOfBatches(t *testing.T) {
	b := byName()
	gatherAll(b, "one", "a", "b")
	gatherAll(b, "two", "c")
	waits := func(kind, x string) bool { return kind != "two" || x != "b" }
	if wrong, n := b.Check(waits); wrong != nil || n != 3 {
		t.Errorf("%v of %d gather wrongly", wrong, n)
	}
	gatherAll(b, "two", "b")
	if wrong, n := b.Check(waits); !slices.Equal(wrong, []string{"b"}) && !slices.Equal(wrong, []string{"b", "b"}) ||
		n != 3 {
		t.Errorf("%v of %d gather wrongly, want b", wrong, n)
	}
}

// TestSharing: of five dispatches to a by threes the first three and the last two share, each batch under the id
// of its first; one of its kind alone, or to another agent, shares none. The next moment begins anew.
func TestSharing(t *testing.T) {
	b := byName()
	var all []*coordinator.Dispatch
	give := func(kind string, agent coordinator.AgentID, id string) {
		d := &coordinator.Dispatch{DispatchID: id, Agent: agent}
		all = append(all, d)
		b.Share(kind, Shared[string]{Task: id, Made: d}, 3)
	}
	give("kind", "a", "1")
	give("kind", "a", "2")
	give("kind", "b", "3")
	give("other", "a", "4")
	give("kind", "a", "5")
	give("kind", "a", "6")
	give("kind", "a", "7")
	var sealed []string
	for _, batch := range b.Seal() {
		var tasks []string
		for _, d := range batch {
			tasks = append(tasks, d.Task)
		}
		sealed = append(sealed, batch[0].Made.BatchID+": "+strings.Join(tasks, " "))
	}
	if want := []string{"1: 1 2 5", "6: 6 7"}; b.Sharing() || !slices.Equal(sealed, want) {
		t.Errorf("%q are sealed, want %q; some are not: %v", sealed, want, b.Sharing())
	}
	give("kind", "a", "8")
	if left := b.Seal(); len(left) != 0 {
		t.Errorf("%s shares with those of the moment before", left[0][0].Task)
	}
	want := []struct {
		batch string
		size  int
	}{{"1", 3}, {"1", 3}, {"", 0}, {"", 0}, {"1", 3}, {"6", 2}, {"6", 2}, {"", 0}}
	for i, d := range all {
		if d.BatchID != want[i].batch || d.BatchSize != want[i].size {
			t.Errorf("%s: %d in batch %q, want %d in %q", d.DispatchID, d.BatchSize, d.BatchID, want[i].size, want[i].batch)
		}
	}
}
