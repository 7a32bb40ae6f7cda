package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// conformance is what every database keeps of a history as the package promises, run against SQLite and PostgreSQL.
// fresh gives the place of an empty database, another with each call.
func conformance(t *testing.T, fresh func(t *testing.T) string) {
	for name, test := range map[string]func(*testing.T, string){
		"begins empty":                       testEmpty,
		"rows and mark go together":          testApply,
		"a batch twice changes nothing":      testTwice,
		"all or nothing":                     testNothing,
		"a count ends at the most":           testMost,
		"questions":                          testQuestions,
		"a provider is all of its keys":      testKeys,
		"opened again":                       testAgain,
		"two writers, each batch once":       testTwoWriters,
		"replaced from a day on":             testReplace,
		"replaced by another journal's":      testReplaceKeeps,
		"a gap found again is the same":      testReplaceGaps,
		"a newer version's tables are left":  testNewer,
		"tables of another make are refused": testOtherMake,
		"names are compared byte by byte":    testOrder,
		"many rows and reservations at once": testMany,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

// open opens a place until the test ends.
func open(t *testing.T, place string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// mark is a mark at an offset.
func mark(offset int64) usage.Mark {
	if offset < 0 {
		return usage.NoMark()
	}
	return usage.Mark{
		Offset: offset, Check: uint32(offset) + 0xfffffff0, Epoch: 7, Next: uint64(offset) + 1,
		Again: usage.From{Offset: offset - 2, Epoch: 6, Next: uint64(offset), Doubts: offset%2 == 1},
		Since: noon, At: noon.Add(time.Duration(offset) * time.Second),
	}
}

// row is a row of one settled call with so many tokens.
func row(day, group, agent string, tokens int64) usage.Row {
	return usage.Row{
		Key: usage.Key{Day: day, Group: group, Agent: agent, Provider: "openai", Model: "gpt-4o",
			Source: usage.SourceTask},
		Counts: usage.Counts{Requests: 1, InputTokens: tokens, TotalTokens: tokens, Cost: 10 * tokens, Settled: 1},
	}
}

func batch(from, to int64, rows ...usage.Row) usage.Batch {
	return usage.Batch{From: mark(from), To: mark(to), Rows: rows}
}

func apply(t *testing.T, s *store.Store, b usage.Batch) {
	t.Helper()
	if err := s.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, s *store.Store, q usage.Query, want ...usage.Row) {
	t.Helper()
	got, more, err := s.Usage(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if more || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v:\n got %+v, more %v\nwant %+v", q, got, more, want)
	}
}

var byDay = usage.Query{By: usage.ByDay}

func testEmpty(t *testing.T, place string) {
	s := open(t, place)
	state, err := s.State(t.Context())
	if err != nil || state.Mark != usage.NoMark() || len(state.Open) != 0 {
		t.Errorf("got %+v, %v", state, err)
	}
	expect(t, s, byDay)
	if gaps, err := s.Gaps(t.Context()); err != nil || len(gaps) != 0 {
		t.Errorf("gaps %+v, %v", gaps, err)
	}
}

func testApply(t *testing.T, place string) {
	s := open(t, place)
	open := usage.Reservation{ID: coordinator.TaskKey{1, 1 << 63}, Key: row("2026-11-22", "g", "a", 0).Key}
	ends := usage.Reservation{ID: coordinator.TaskKey{0, 2}, Key: open.Key}
	gap := usage.Gap{From: noon, To: noon.Add(time.Hour), Offset: 3, Lost: 2,
		Reason: "records 4 to 9 are missing before it"}
	b := batch(-1, 5, row("2026-11-22", "g", "a", 100))
	b.Put, b.Gaps = []usage.Reservation{ends, open}, []usage.Gap{gap}
	apply(t, s, b)
	// 100 + 23 tokens of 2 calls, of which one had expired.
	b = batch(5, 6, row("2026-11-22", "g", "a", 23))
	b.Rows[0].Expired, b.Rows[0].Late = 1, 1
	b.Drop = []coordinator.TaskKey{ends.ID}
	apply(t, s, b)
	want := row("2026-11-22", "g", "a", 123)
	want.Requests, want.Settled, want.Expired, want.Late = 2, 2, 1, 1
	expect(t, s, byDay, want)
	state, err := s.State(t.Context())
	if err != nil || state.Mark != mark(6) || !reflect.DeepEqual(state.Open, []usage.Reservation{open}) {
		t.Errorf("got %+v, %v", state, err)
	}
	if gaps, err := s.Gaps(t.Context()); err != nil || !reflect.DeepEqual(gaps, []usage.Gap{gap}) {
		t.Errorf("gaps %+v, %v", gaps, err)
	}
}

func testTwice(t *testing.T, place string) {
	s := open(t, place)
	b := batch(-1, 5, row("2026-11-22", "g", "a", 100))
	apply(t, s, b)
	if err := s.Apply(t.Context(), &b); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the second time gives %v", err)
	}
	expect(t, s, byDay, row("2026-11-22", "g", "a", 100))
}

// What fails in the middle leaves nothing behind, the mark included.
func testNothing(t *testing.T, place string) {
	s := open(t, place)
	b := batch(-1, 5, row("2026-11-22", "g", "a", 100))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Apply(ctx, &b); err == nil {
		t.Error("a context that has ended is accepted")
	}
	twice := usage.Reservation{ID: coordinator.TaskKey{1, 1}}
	b.Put = []usage.Reservation{twice, twice} // one statement cannot write a row twice
	err := s.Apply(t.Context(), &b)
	if got, _ := s.Mark(t.Context()); (err == nil) != (got == mark(5)) {
		t.Errorf("%v, and the mark is %+v", err, got)
	}
	if err != nil {
		expect(t, s, byDay)
	}
}

func testMost(t *testing.T, place string) {
	s := open(t, place)
	apply(t, s, batch(-1, 1, row("2026-11-22", "g", "a", usage.Most/10)))
	apply(t, s, batch(1, 2, row("2026-11-22", "g", "a", usage.Most/10*9+5)))
	want := row("2026-11-22", "g", "a", usage.Most)
	want.Cost, want.Requests, want.Settled = usage.Most, 2, 2
	expect(t, s, byDay, want)
}

func testQuestions(t *testing.T, place string) {
	s := open(t, place)
	oct, nov := row("2026-10-31", "g", "a", 1), row("2026-11-01", "g", "a", 20)
	other, late := row("2026-11-02", "h", "b", 300), row("2026-11-03", "g", "a", 4000)
	other.Provider, other.Model = "anthropic", "claude"
	apply(t, s, batch(-1, 1, oct, nov, other, late))

	expect(t, s, byDay, oct, nov, other, late)
	expect(t, s, usage.Query{By: usage.ByDay, Group: "g", From: "2026-11-01"}, nov, late)
	expect(t, s, usage.Query{By: usage.ByDay, To: "2026-11-01"}, oct, nov)
	expect(t, s, usage.Query{By: usage.ByDay, Agent: "b"}, other)
	expect(t, s, usage.Query{By: usage.ByDay, Provider: "anthropic", Model: "claude"}, other)
	expect(t, s, usage.Query{By: usage.ByDay, Provider: "anthropic", Model: "gpt-4o"})
	expect(t, s, usage.Query{By: usage.ByDay, Group: "' OR 1=1 --"})
	expect(t, s, usage.Query{By: usage.ByDay, Provider: "' OR 1=1 --"})

	month := row("2026-11", "g", "a", 4020) // 20 + 4000
	month.Requests, month.Settled = 2, 2
	o, h := oct, other
	o.Day, h.Day = "2026-10", "2026-11"
	expect(t, s, usage.Query{By: usage.ByMonth}, o, month, h)
	total := row("", "g", "a", 4021)
	total.Requests, total.Settled = 3, 3
	expect(t, s, usage.Query{By: usage.ByTotal, Group: "g"}, total)

	// The latest days are given when not all are.
	got, more, err := s.Usage(t.Context(), usage.Query{By: usage.ByDay, Limit: 2})
	if err != nil || !more || !reflect.DeepEqual(got, []usage.Row{other, late}) {
		t.Errorf("got %+v, more %v, %v", got, more, err)
	}
}

// A provider's name stands for its keys, too, and for no other whose name begins alike; a key for itself.
func testKeys(t *testing.T, place string) {
	s := open(t, place)
	var all []usage.Row
	for _, provider := range []string{"op", "op@a", "op@b", "opX@a", "op_", "öp@a", "öp@b"} {
		r := row("2026-11-22", "g", "a", 7)
		r.Provider = provider
		all = append(all, r)
	}
	apply(t, s, batch(-1, 0, all...))
	for provider, want := range map[string][]usage.Row{
		"op": all[0:3], "op@b": all[2:3], "opX": all[3:4], "op_": all[4:5], "op%": nil, "öp": all[5:7], "op@": nil, "": all,
	} {
		expect(t, s, usage.Query{By: usage.ByDay, Provider: provider}, want...)
	}
}

func testAgain(t *testing.T, place string) {
	s, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, batch(-1, 5, row("2026-11-22", "g", "a", 100)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, place)
	expect(t, s, byDay, row("2026-11-22", "g", "a", 100))
	if m, err := s.Mark(t.Context()); err != nil || m != mark(5) {
		t.Errorf("mark %+v, %v", m, err)
	}
}

// Two coordinators follow the same journal: of each batch that both have, one is accepted.
func testTwoWriters(t *testing.T, place string) {
	const batches = 20
	var wait sync.WaitGroup
	applied := make([]int, 2)
	for i := range applied {
		s := open(t, place)
		wait.Go(func() {
			for at := int64(-1); at < batches-1; {
				b := batch(at, at+1, row("2026-11-22", "g", "a", 1))
				switch err := s.Apply(context.Background(), &b); {
				case err == nil:
					applied[i]++
					at++
				case errors.Is(err, store.ErrMoved):
					m, err := s.Mark(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					at = m.Offset
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	want := row("2026-11-22", "g", "a", batches)
	want.Requests, want.Settled = batches, batches
	expect(t, open(t, place), byDay, want)
	if sum := applied[0] + applied[1]; sum != batches {
		t.Errorf("%v were applied, want %d in all", applied, batches)
	}
}

func replace(t *testing.T, s *store.Store, b usage.Batch, from string, keep bool) {
	t.Helper()
	if err := s.Replace(t.Context(), &b, from, keep); err != nil {
		t.Fatal(err)
	}
}

// The journal still reaches back to the 21st: what is older stays, what is newer is made anew.
func testReplace(t *testing.T, place string) {
	s := open(t, place)
	old := row("2026-11-20", "g", "a", 7)
	b := batch(-1, 5, old, row("2026-11-21", "g", "a", 99))
	b.Put = []usage.Reservation{{ID: coordinator.TaskKey{1, 1}}}
	apply(t, s, b)
	fresh := row("2026-11-21", "g", "a", 8)
	b = batch(-1, 5, row("2026-11-20", "g", "a", 1), fresh)
	b.Put = []usage.Reservation{{ID: coordinator.TaskKey{2, 2}}}
	b.To.Since = noon.Add(time.Hour)
	replace(t, s, b, "2026-11-21", false)
	expect(t, s, byDay, old, fresh)
	state, err := s.State(t.Context())
	if err != nil || len(state.Open) != 1 || state.Open[0].ID != (coordinator.TaskKey{2, 2}) {
		t.Errorf("got %+v, %v", state, err)
	}
	if m := state.Mark; m.Generation != 1 || !m.Since.Equal(noon) {
		t.Errorf("generation %d since %s, want 1 and the old beginning", m.Generation, m.Since)
	}
	// The previous writer does not go on from there.
	late := batch(5, 6, row("2026-11-22", "g", "a", 1))
	if err := s.Apply(t.Context(), &late); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a batch of before gives %v", err)
	}
	// All of it anew.
	b.To.Since = noon.Add(time.Hour)
	replace(t, s, b, "", false)
	expect(t, s, byDay, row("2026-11-20", "g", "a", 1), fresh)
	if m, _ := s.Mark(t.Context()); m.Generation != 2 || !m.Since.Equal(noon.Add(time.Hour)) {
		t.Errorf("mark %+v", m)
	}
}

// A gap that is found again is the same one; what was missing before stays told, and so is what was missing
// in another journal at the same offset.
func testReplaceGaps(t *testing.T, place string) {
	s := open(t, place)
	old, found := usage.Gap{To: noon, Offset: 2, Lost: 1, Reason: "records 1 to 7 are missing"},
		usage.Gap{From: noon, To: noon, Offset: 4, Reason: "damaged"}
	b := batch(-1, 5)
	b.Gaps = []usage.Gap{old, found}
	apply(t, s, b)
	for _, c := range []struct {
		from string
		keep bool
		want []usage.Gap // the newest first
	}{
		{"2026-11-22", false, []usage.Gap{found, old}},
		{"", true, []usage.Gap{found, found, old}}, // another journal's
		{"", false, []usage.Gap{found}},
	} {
		b = batch(-1, 5)
		b.Gaps = []usage.Gap{found}
		replace(t, s, b, c.from, c.keep)
		if got, err := s.Gaps(t.Context()); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("from %q, keep %v: got %+v, %v\nwant %+v", c.from, c.keep, got, err, c.want)
		}
	}
}

func testReplaceKeeps(t *testing.T, place string) {
	s := open(t, place)
	apply(t, s, batch(-1, 500, row("2026-11-22", "g", "a", 7)))
	replace(t, s, batch(-1, 3, row("2026-11-22", "g", "a", 10)), "", true)
	want := row("2026-11-22", "g", "a", 17) // 7 of the journal before, 10 of the new one
	want.Requests, want.Settled = 2, 2
	expect(t, s, byDay, want)
	if m, _ := s.Mark(t.Context()); m.Offset != 3 || m.Generation != 1 {
		t.Errorf("mark %+v", m)
	}
}

func testNewer(t *testing.T, place string) {
	s := open(t, place)
	if err := s.Exec(t.Context(), "INSERT INTO usage_schema (version) VALUES (999)"); err != nil {
		t.Fatal(err)
	}
	if again, err := store.Open(t.Context(), place); err == nil {
		again.Close()
		t.Error("tables of version 999 are opened")
	}
}

// Tables that only have the names of ours are left as they are; others beside ours are fine.
func testOtherMake(t *testing.T, place string) {
	s := open(t, place)
	exec := func(statement string) {
		t.Helper()
		if err := s.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what, table string) {
		t.Helper()
		again, err := store.Open(t.Context(), place)
		var unusable *store.UnusableError
		switch {
		case err == nil:
			again.Close()
			t.Errorf("%s: it is opened", what)
		case !errors.As(err, &unusable) ||
			!strings.Contains(err.Error(), "there is a table "+table+" that taskbus has not made"):
			t.Errorf("%s: %v", what, err)
		}
	}
	exec("CREATE TABLE customers (name TEXT)")
	open(t, place)
	exec("ALTER TABLE usage_rows DROP COLUMN late")
	refused("a column is missing", "usage_rows")
	exec("DROP TABLE usage_schema")
	refused("nothing says that these are ours", "usage_gaps")
	exec("CREATE TABLE usage_schema (name TEXT)")
	refused("one that says something else", "usage_schema")
}

// "B" < "a" < "ä", as bytes: the same in every database, whatever its language.
func testOrder(t *testing.T, place string) {
	s := open(t, place)
	apply(t, s, batch(-1, 1, row("2026-11-22", "B", "x", 1), row("2026-11-22", "a", "x", 1),
		row("2026-11-22", "ä", "x", 1)))
	got, more, err := s.Usage(t.Context(), usage.Query{By: usage.ByDay, Limit: 2})
	if err != nil || !more || len(got) != 2 || got[0].Group != "B" || got[1].Group != "a" {
		t.Errorf("got %+v, %v, %v", got, more, err)
	}
}

func testMany(t *testing.T, place string) {
	s := open(t, place)
	b := batch(-1, 1)
	const n = 1234
	for i := range n {
		b.Rows = append(b.Rows, row("2026-11-22", "g", fmt.Sprintf("a%04d", i), int64(i)))
		b.Put = append(b.Put, usage.Reservation{ID: coordinator.TaskKey{uint64(i), 0}, Key: b.Rows[i].Key})
	}
	apply(t, s, b)
	expect(t, s, byDay, b.Rows...)
	next := batch(1, 2)
	for i := range n - 1 {
		next.Drop = append(next.Drop, coordinator.TaskKey{uint64(i), 0})
	}
	apply(t, s, next)
	if state, err := s.State(t.Context()); err != nil || len(state.Open) != 1 ||
		state.Open[0].ID != (coordinator.TaskKey{n - 1, 0}) {
		t.Errorf("%d are open, %v", len(state.Open), err)
	}
}
