package journal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// aBatch has n records from number first on, whose names are their numbers.
func aBatch(epoch, first uint64, n int) []byte {
	return AppendBatch(nil, Header{Epoch: epoch, First: first, At: t0, ResultOffset: -1, SnapshotOffset: -1},
		tracked(int(first), n))
}

// aPart is of a snapshot of the records 1 to 10: part 0 says nothing, part n record n.
func aPart(epoch uint64, name string, number int, last bool) []byte {
	var records []coordinator.Record
	if number > 0 {
		records = tracked(number, 1)
	}
	return AppendSnapshot(nil, Header{Epoch: epoch, First: 11, At: t0, ResultOffset: -1, SnapshotOffset: -1},
		Chunk{Snapshot: name, Number: number, Last: last}, records)
}

func anEpoch(epoch, first uint64) []byte {
	return AppendEpoch(nil, Header{Epoch: epoch, First: first, At: t0, ResultOffset: -1, SnapshotOffset: -1}, someLeader)
}

// says is an empty batch whose header names a snapshot.
func says(epoch, first uint64, snapshot int64) []byte {
	return AppendBatch(nil, Header{Epoch: epoch, First: first, At: t0, ResultOffset: -1, SnapshotOffset: snapshot}, nil)
}

// damaged is a message that cannot be read.
func damaged() []byte {
	body := aBatch(1, 1, 1)
	body[len(body)-1] ^= 1
	return body
}

// numbers of the records that were folded.
func numbers(records []coordinator.Record) string {
	return strings.TrimSpace(strings.ReplaceAll(describe(records), "a000", ""))
}

func TestReaderFolds(t *testing.T) {
	for _, c := range []struct {
		name     string
		bodies   [][]byte // at offsets 5, 6, …
		want     string   // the numbers of the records
		next     uint64
		snapshot int64
	}{
		{"from the beginning", [][]byte{anEpoch(1, 1), aBatch(1, 1, 2), aBatch(1, 3, 1)}, "01 02 03", 4, -1},
		{"sent twice", [][]byte{aBatch(1, 1, 2), aBatch(1, 1, 2), aBatch(1, 3, 1), aBatch(1, 1, 2)}, "01 02 03", 4, -1},
		{"sent twice, cut otherwise", [][]byte{aBatch(1, 1, 3), aBatch(1, 2, 4)}, "01 02 03 04 05", 6, -1},
		{"void", [][]byte{aBatch(1, 1, 2), anEpoch(2, 3), aBatch(1, 3, 2), aBatch(2, 3, 1)}, "01 02 03", 4, -1},
		{"claimed before the leader's last words", [][]byte{aBatch(1, 1, 2), aBatch(1, 3, 1), anEpoch(2, 3), aBatch(2, 4, 1)},
			"01 02 03 04", 5, -1},
		{"from a snapshot, which ends within a batch", [][]byte{aPart(1, "s", 0, false), aBatch(1, 9, 4),
			aPart(1, "s", 1, true), aBatch(1, 13, 1)}, "01 11 12 13", 14, 5},
		{"within it: before it, after it", [][]byte{aPart(1, "s", 0, false), aBatch(1, 9, 2), aBatch(1, 11, 1),
			aPart(1, "s", 1, false), aBatch(1, 12, 1), aPart(1, "s", 2, true)}, "01 02 11 12", 13, 5},
		{"parts sent twice", [][]byte{aPart(1, "s", 0, false), aPart(1, "s", 0, false), aPart(1, "s", 1, false),
			aPart(1, "s", 1, false), aPart(1, "s", 2, true)}, "01 02", 11, 5},
		{"a later snapshot is not folded", [][]byte{aBatch(1, 1, 10), aPart(1, "s", 0, false), aPart(1, "s", 1, true),
			aBatch(1, 11, 1)}, "01 02 03 04 05 06 07 08 09 10 11", 12, 6},
		{"its leader died", [][]byte{aBatch(1, 1, 10), aPart(1, "s", 0, false), aPart(1, "s", 1, false), anEpoch(2, 11),
			aPart(1, "s", 2, true)}, "01 02 03 04 05 06 07 08 09 10", 11, -1},
		{"it lacks a part", [][]byte{aBatch(1, 1, 1), aPart(1, "s", 0, false), aPart(1, "s", 2, false),
			aPart(1, "s", 1, false), aPart(1, "s", 2, false), aPart(1, "s", 3, true)}, "01", 2, -1},
		{"it lacks a part, and another came twice",
			[][]byte{aBatch(1, 1, 1), aPart(1, "s", 0, false), aPart(1, "s", 1, false), aPart(1, "s", 1, false),
				aPart(1, "s", 3, true)}, "01", 2, -1},
		{"a header knows a newer one", [][]byte{aBatch(1, 1, 1), aPart(1, "s", 0, false), aPart(1, "s", 1, true),
			says(1, 2, 77)}, "01", 2, 77},
		{"the beginning gone, then a snapshot", [][]byte{anEpoch(1, 9), aBatch(1, 9, 2), aPart(1, "s", 0, false),
			aPart(1, "s", 1, true), aBatch(1, 11, 1)}, "01 11", 12, 7},
		{"the rest of one that began before", [][]byte{aPart(1, "r", 3, true), aPart(1, "s", 0, false),
			aPart(1, "s", 1, true)}, "01", 11, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader()
			var folded []coordinator.Record
			for i, body := range c.bodies {
				records, err := r.Take(int64(5+i), body)
				if err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
				folded = append(folded, records...)
			}
			if err := r.Check(); err != nil {
				t.Error(err)
			}
			if got := numbers(folded); got != c.want || r.Next() != c.next || r.SnapshotOffset() != c.snapshot {
				t.Errorf("folded %s, next %d, snapshot %d; want %s, next %d, snapshot %d", got, r.Next(), r.SnapshotOffset(),
					c.want, c.next, c.snapshot)
			}
		})
	}
}

// What is wrong with a journal is told with the place and the numbers.
func TestReaderRefuses(t *testing.T) {
	leader := AppendEpoch(nil, Header{First: 1}, someLeader)
	for _, c := range []struct {
		name   string
		bodies [][]byte // at offsets 5, 6, …; the last is refused
		want   string
	}{
		{"hole", [][]byte{aBatch(1, 1, 2), aBatch(1, 5, 1)},
			"offset 6 of coordinator.journal: records 3 to 4 are missing before it"},
		{"hole before a claim", [][]byte{aBatch(1, 1, 2), anEpoch(2, 4)}, "records 3 to 3 are missing"},
		{"hole within a snapshot's time", [][]byte{aPart(1, "s", 0, false), aBatch(1, 12, 1)},
			"records 11 to 11 are missing"},
		{"part missing", [][]byte{aPart(1, "s", 0, false), aPart(1, "s", 2, false)},
			"part 1 of the snapshot that begins at offset 5 is missing before it"},
		{"leader died in the snapshot", [][]byte{aPart(1, "s", 0, false), aBatch(2, 11, 1)},
			"the snapshot that begins at offset 5, where reading began, has no end: its leader did not finish it"},
		{"last part missing", [][]byte{aPart(1, "s", 0, false), says(1, 11, 5)},
			"the snapshot that begins at offset 5, where reading began, has no end"},
		{"damaged", [][]byte{aBatch(1, 1, 2), damaged()},
			"the message at offset 6 of coordinator.journal is damaged: its checksum is wrong; `taskbus serve " +
				"--journal-skip-corrupt`"},
		{"newer", [][]byte{leader, later(byte(len(recordTypes)), func(c *coder) { c.write(1) })},
			"offset 6 of coordinator.journal: " + "kind of record 33, and this version of taskbus knows them up to 32" +
				": taskbus 1.4.0 wrote it; start that version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader()
			for i, body := range c.bodies {
				_, err := r.Take(int64(5+i), body)
				if last := i == len(c.bodies)-1; !last && err != nil {
					t.Fatal(err)
				} else if last && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("error %v\nwant one with %q", err, c.want)
				}
			}
		})
	}
}

// With SkipCorrupt the hole that a damaged message leaves is accepted, and no other.
func TestReaderPassesOverDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		bodies [][]byte // at offsets 5, 6, …
		want   string   // the numbers of the records; or an error
	}{
		{"a batch", [][]byte{aBatch(1, 1, 2), damaged(), aBatch(1, 5, 1)}, "01 02 05"},
		{"two", [][]byte{aBatch(1, 1, 2), damaged(), damaged(), aBatch(1, 9, 1), aBatch(1, 10, 1)}, "01 02 09 10"},
		{"the first", [][]byte{damaged(), aBatch(1, 5, 1)}, "05"},
		{"before a claim", [][]byte{aBatch(1, 1, 2), damaged(), anEpoch(2, 4), aBatch(2, 4, 1)}, "01 02 04"},
		{"one that leaves no hole excuses none", [][]byte{aBatch(1, 1, 2), damaged(), aBatch(1, 3, 1), aBatch(1, 9, 1)},
			"records 4 to 8 are missing"},
		{"a part", [][]byte{aPart(1, "s", 0, false), damaged(), aPart(1, "s", 2, true), aBatch(1, 11, 1)}, "02 11"},
		{"the first part", [][]byte{damaged(), aPart(1, "s", 1, false), aPart(1, "s", 2, true), aBatch(1, 11, 1)},
			"01 02 11"},
		{"the last part, its leader died", [][]byte{aPart(1, "s", 0, false), aPart(1, "s", 1, false), aBatch(1, 11, 1),
			damaged(), anEpoch(2, 12), aBatch(2, 12, 1)}, "01 11 12"},
		{"the last part, its leader goes on", [][]byte{aPart(1, "s", 0, false), aPart(1, "s", 1, false), aBatch(1, 11, 1),
			damaged(), says(1, 12, 5), aBatch(1, 12, 1)}, "01 11 12"},
		{"the last part, another snapshot", [][]byte{aPart(1, "s", 0, false), aPart(1, "s", 1, false), damaged(),
			aPart(1, "t", 0, false), aPart(1, "t", 1, true), aBatch(1, 11, 1)}, "01 11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader()
			var told []int64
			r.SkipCorrupt(func(offset int64, _ error) { told = append(told, offset) })
			var folded []coordinator.Record
			got := ""
			for i, body := range c.bodies {
				records, err := r.Take(int64(5+i), body)
				if err != nil {
					got = err.Error()
					break
				}
				folded = append(folded, records...)
			}
			if got == "" {
				got = numbers(folded)
			}
			if got != c.want && !strings.Contains(got, "missing") || !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			var damage []int64
			for i, body := range c.bodies {
				if slices.Equal(body, damaged()) {
					damage = append(damage, int64(5+i))
				}
			}
			if !slices.Equal(told, damage) {
				t.Errorf("told of damage at %v, it is at %v", told, damage)
			}
		})
	}
	// A snapshot of which a part is missing is none to begin with next time.
	r := NewReader()
	r.SkipCorrupt(func(int64, error) {})
	for i, body := range [][]byte{aPart(1, "s", 0, false), damaged(), aPart(1, "s", 2, true)} {
		if _, err := r.Take(int64(i), body); err != nil {
			t.Fatal(err)
		}
	}
	if r.SnapshotOffset() != -1 {
		t.Errorf("a complete snapshot is said to begin at %d", r.SnapshotOffset())
	}
}

// Of two claims of the same epoch the first counts.
func TestSecondClaimOfAnEpoch(t *testing.T) {
	r := claimed(t)
	second := someLeader
	second.Nonce = "nonce-2"
	if _, err := r.Take(1, AppendEpoch(nil, Header{Epoch: 1, First: 1, At: t0.Add(time.Hour)}, second)); err != nil {
		t.Fatal(err)
	}
	if leader, _ := r.Leader(); leader != someLeader {
		t.Errorf("leader %+v", leader)
	}
	if _, err := r.Take(2, Claim(r, t0.Add(time.Hour), second)); err != nil { // in the next one
		t.Fatal(err)
	}
	// claims are not what it goes on from
	if leader, since := r.Leader(); leader != second || r.Epoch() != 2 || !since.Equal(t0.Add(time.Hour)) ||
		!r.LastAt().IsZero() {
		t.Errorf("leader %+v in epoch %d since %v, at %v", leader, r.Epoch(), since, r.LastAt())
	}
}

// TestHowLongALeaderHasWritten: of one that has written nothing it is no time at all, whatever the clock
// of the one before said.
func TestHowLongALeaderHasWritten(t *testing.T) {
	r := claimed(t)
	second, third := someLeader, someLeader
	second.Nonce, third.Nonce = "nonce-2", "nonce-3"
	take := func(offset int64, body []byte, want time.Duration) {
		t.Helper()
		if _, err := r.Take(offset, body); err != nil {
			t.Fatal(err)
		}
		if got := r.Led(); got != want {
			t.Errorf("after message %d: %v, want %v", offset, got, want)
		}
	}
	ahead := t0.Add(100 * time.Hour)
	take(1, Claim(r, ahead, second), 0)
	take(2, AppendBatch(nil, Header{Epoch: 2, First: 1, At: ahead.Add(time.Minute), SnapshotOffset: -1},
		[]coordinator.Record{&coordinator.Paid{}}), time.Minute)
	take(3, Claim(r, t0, third), 0)
}

func TestStart(t *testing.T) {
	for snapshot, want := range map[int64]bus.Position{-1: bus.First(), 0: bus.At(0), 4711: bus.At(4711)} {
		if got := Start(Header{SnapshotOffset: snapshot}); got != want {
			t.Errorf("snapshot at %d: %v, want %v", snapshot, got, want)
		}
	}
}
