package journal

import (
	"reflect"
	"testing"
	"time"
)

// The leader says which files it has, again when they change; a reader knows the latest, also from a
// snapshot.
func TestLeaderSaysItsFiles(t *testing.T) {
	leader := someLeader
	leader.Agents, leader.Quotas = "aaaa", ""
	r := NewReader()
	take := func(offset int64, body []byte) {
		t.Helper()
		if records, err := r.Take(offset, body); err != nil || records != nil {
			t.Fatalf("%v, %v", records, err)
		}
	}
	expect := func(r *Reader, agents, quotas string) {
		t.Helper()
		if l, _ := r.Leader(); l.Agents != agents || l.Quotas != quotas || l.Version != someLeader.Version {
			t.Errorf("leader %+v, want it with %q, %q", l, agents, quotas)
		}
	}
	take(0, Claim(r, t0, leader))
	expect(r, "aaaa", "")
	w, err := NewWriter(r)
	if err != nil {
		t.Fatal(err)
	}
	if body := w.News(t0, "aaaa", "", nil); body != nil {
		t.Error("it says again what it has said")
	}
	next := r.Next()
	take(1, w.News(t0.Add(time.Minute), "bbbb", "cccc", nil))
	expect(r, "bbbb", "cccc")
	if _, since := r.Leader(); r.Next() != next || r.Epoch() != 1 || !since.Equal(t0) {
		t.Errorf("next %d, epoch %d since %v: changed by other files", r.Next(), r.Epoch(), since)
	}
	// The word of another coordinator in the same epoch is void, as its claim is.
	other := leader
	other.Nonce, other.Agents = "nonce-2", "dddd"
	take(2, AppendEpoch(nil, Header{Epoch: 1, First: next, At: t0, ResultOffset: -1, SnapshotOffset: -1}, other))
	expect(r, "bbbb", "cccc")

	first, _ := w.Snapshot(t0, "s1", nil)
	late := NewReader()
	if _, err := late.Take(3, first); err != nil {
		t.Fatal(err)
	}
	expect(late, "bbbb", "cccc")
}

// A loss is what the leader of epoch 1 claims with, and what a leader says of it from then on; no later claim
// changes it, as it may have been made before the last word on it was read.
func TestLossIsSaidUntilItIsNot(t *testing.T) {
	lost := &Loss{At: t0, Evidence: []string{"marks"}, Budgets: "they begin at 0"}
	r, offset := NewReader(), int64(0)
	take := func(body []byte, want *Loss) {
		t.Helper()
		if _, err := r.Take(offset, body); err != nil {
			t.Fatal(err)
		}
		offset++
		if l, _ := r.Leader(); !reflect.DeepEqual(l.Lost, want) {
			t.Fatalf("lost: %+v, want %+v", l.Lost, want)
		}
	}
	leader := someLeader
	leader.Lost = lost
	take(Claim(r, t0, leader), lost)
	take(Claim(r, t0, Epoch{Nonce: "nonce-2"}), lost)
	w, err := NewWriter(r)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.Snapshot(t0, "s1", nil)
	late := NewReader()
	if _, err := late.Take(3, first); err != nil {
		t.Fatal(err)
	}
	if l, _ := late.Leader(); !reflect.DeepEqual(l.Lost, lost) {
		t.Errorf("from a snapshot: %+v", l.Lost)
	}
	restored := *lost
	restored.Restored, restored.Budgets = true, "taken back"
	take(w.News(t0, "", "", &restored), &restored)
	take(w.News(t0, "", "", nil), nil)
	take(Claim(r, t0, Epoch{Nonce: "nonce-3", Lost: lost}), nil)
}
