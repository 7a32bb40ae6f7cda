package store_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
	"taskbus/tests/support/postgrestest"
)

// Whatever is written to both, SQLite and PostgreSQL give the same answers to the same questions.
func TestBothAnswerAlike(t *testing.T) {
	server := postgrestest.Shared(t)
	file, database := open(t, filepath.Join(t.TempDir(), "history.db")), open(t, server.Database(t))
	both := []*store.Store{file, database}
	offset := int64(-1)
	rapid.Check(t, func(c *rapid.T) {
		from := usage.NoMark()
		if m, err := file.Mark(t.Context()); err != nil {
			c.Fatal(err)
		} else {
			from = m
		}
		offset++
		b := usage.Batch{From: from, To: from, Rows: drawRows(c)}
		b.To.Offset, b.To.Next = offset, uint64(offset)+2
		for i := range rapid.IntRange(0, 3).Draw(c, "put") {
			b.Put = append(b.Put, usage.Reservation{ID: coordinator.TaskKey{rapid.Uint64().Draw(c, "id"), uint64(i)},
				Key: drawKey(c)})
		}
		for _, s := range both {
			if err := s.Apply(t.Context(), &b); err != nil {
				c.Fatal(err)
			}
		}
		q := usage.Query{
			By:    rapid.SampledFrom([]usage.By{usage.ByDay, usage.ByMonth, usage.ByTotal}).Draw(c, "by"),
			Limit: rapid.IntRange(0, 5).Draw(c, "limit"),
			Group: rapid.SampledFrom([]string{"", "", "g", "B", "ä"}).Draw(c, "of group"),
			Model: rapid.SampledFrom([]string{"", "", "m/1"}).Draw(c, "of model"),
			From:  rapid.SampledFrom([]string{"", "2026-10-31"}).Draw(c, "from"),
			To:    rapid.SampledFrom([]string{"", "2026-11-01"}).Draw(c, "to"),
		}
		var answers []string
		for _, s := range both {
			rows, more, err := s.Usage(t.Context(), q)
			if err != nil {
				c.Fatal(err)
			}
			answers = append(answers, fmt.Sprint(rows, more))
		}
		if answers[0] != answers[1] {
			c.Fatalf("%+v:\nSQLite     %s\nPostgreSQL %s", q, answers[0], answers[1])
		}
	})
	var states []usage.State
	for _, s := range both {
		state, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state)
	}
	if len(states[0].Open) == 0 || states[0].Mark != states[1].Mark ||
		!reflect.DeepEqual(byID(states[0].Open), byID(states[1].Open)) {
		t.Errorf("SQLite     %+v\nPostgreSQL %+v", states[0], states[1])
	}
}

func byID(open []usage.Reservation) map[coordinator.TaskKey]usage.Reservation {
	all := make(map[coordinator.TaskKey]usage.Reservation)
	for _, r := range open {
		all[r.ID] = r
	}
	return all
}

func drawKey(c *rapid.T) usage.Key {
	return usage.Key{
		Day:   rapid.SampledFrom([]string{"2026-10-30", "2026-10-31", "2026-11-01", "2026-11-02"}).Draw(c, "day"),
		Group: rapid.SampledFrom([]string{"", "g", "B", "ä", "a_b", "a%"}).Draw(c, "group"),
		Agent: rapid.SampledFrom([]string{"", "a", "b"}).Draw(c, "agent"), Model: rapid.SampledFrom([]string{"", "m/1"}).
			Draw(c, "model"),
		Source: rapid.SampledFrom([]string{"", "task", "call"}).Draw(c, "source"),
	}
}

// drawRows are rows of different keys, as a batch has them.
func drawRows(c *rapid.T) (rows []usage.Row) {
	seen := make(map[usage.Key]bool)
	for range rapid.IntRange(0, 6).Draw(c, "rows") {
		r := usage.Row{Key: drawKey(c)}
		for _, f := range r.Fields() {
			*f = rapid.SampledFrom([]int64{0, 1, 7, 1234, usage.Most}).Draw(c, "count")
		}
		if !seen[r.Key] {
			rows, seen[r.Key] = append(rows, r), true
		}
	}
	return rows
}
