package service

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/tests/support/membus"
)

// withJournal runs a test with a coordinator that has written something and stopped,
// and another that has not started yet, on the same broker.
func withJournal(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		a1 := first.worker("a1", true)
		first.task("t-1", "build", "")
		a1.finish("succeeded", "")
		first.close()
		r := newRig(t, fleet)
		r.broker = first.broker
		r.service.options.Bus = first.broker
		r.connect()
		r.others = append(r.others, r.outside)
		test(r)
	})
}

// A journal that cannot be used as it is stops the coordinator, with what is wrong and
// what to do: to begin without it would forget in silence.
func TestUnusableJournalStopsTheStart(t *testing.T) {
	body := journal.AppendBatch(nil, journal.Header{Epoch: 1, First: 5, At: time.Unix(1, 0)},
		[]coordinator.Record{&coordinator.Tracked{Agent: "a2"}})
	newer := append([]byte(nil), body...)
	newer[8]++ // the version, behind magic and checksum
	damaged := append([]byte(nil), body...)
	damaged[len(damaged)-1] ^= 1
	for name, c := range map[string]struct {
		body []byte
		says string
	}{
		"damaged": {damaged, "--journal-skip-corrupt"},
		"cut off": {body[:20], "--journal-skip-corrupt"},
		"a gap": {journal.AppendBatch(nil, journal.Header{Epoch: 1, First: 900, At: time.Unix(1, 0)},
			[]coordinator.Record{&coordinator.Tracked{Agent: "a2"}}), "missing"},
		"newer": {resealed(newer), "version"},
	} {
		t.Run(name, func(t *testing.T) {
			withJournal(t, func(r *rig) {
				at := len(r.broker.Messages(bus.StreamJournal))
				if err := r.outside.Publish(bus.Publication{Key: bus.StreamJournal, Body: c.body}); err != nil {
					t.Fatal(err)
				}
				r.start()
				err := <-r.finished
				if err == nil || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), fmt.Sprint("offset ", at)) {
					t.Errorf("it ends with %v, want offset %d and what to do: %q", err, at, c.says)
				}
				r.finished <- nil
				r.close()
			})
		})
	}
}

// TestDroppedSnapshotStopsTheStart: retention has dropped the beginning of the newest snapshot, as it may where
// no coordinator has led for 30 days. That is told, with what to do; nothing is begun with a part of the state,
// and the journal stays as it is.
func TestDroppedSnapshotStopsTheStart(t *testing.T) {
	after(t, wide, func(first *rig) {
		first.finishTasks(20)
		at := first.status().Journal.SnapshotOffset
		if at < 10 {
			t.Fatalf("the newest snapshot begins at offset %d, want something before it", at)
		}
		first.broker.Trim(bus.StreamJournal, at+1)
	}, func(second *rig) {
		left := len(second.broker.Messages(bus.StreamJournal))
		second.start()
		var err error
		select {
		case err = <-second.finished:
		case <-time.After(time.Hour):
			t.Fatalf("it goes on; log:\n%s", second.log)
		}
		if err == nil || !strings.Contains(err.Error(), `see docs/howto/backup.md, "When the journal cannot be read"`) {
			t.Errorf("it ends with %v, want it to say what to do", err)
		}
		if n := len(second.broker.Messages(bus.StreamJournal)); n != left || left == 0 {
			t.Errorf("the journal holds %d messages, and held %d", n, left)
		}
		second.finished <- nil
	})
}

// resealed gives a message that was changed the checksum that it would have: CRC-32C of
// all behind it.
func resealed(body []byte) []byte {
	binary.LittleEndian.PutUint32(body[4:], crc32.Checksum(body[8:], crc32.MakeTable(crc32.Castagnoli)))
	return body
}

// What is damaged is passed over on an operator's request, and logged.
func TestDamagedJournalIsPassedOver(t *testing.T) {
	withJournal(t, func(r *rig) {
		if err := r.outside.Publish(bus.Publication{Key: bus.StreamJournal, Body: []byte("TBJ\nnonsense")}); err != nil {
			t.Fatal(err)
		}
		r.service.options.SkipCorrupt = true
		r.start()
		defer r.close()
		if st := r.status(); st.Readiness.State != stateActive {
			t.Errorf("it is %+v", st.Readiness)
		}
		if !strings.Contains(r.log.String(), "a damaged message of the journal is passed over") {
			t.Errorf("nothing is said of it in\n%s", r.log)
		}
		r.task("t-1", "build", "")
		if n := r.status().Counters.Duplicates; n != 1 {
			t.Errorf("%d duplicates, want t-1 known from what is not damaged", n)
		}
	})
}

// A broker that refuses the journal refuses everything: the session ends, and says why.
func TestRefusedJournalEndsTheSession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Key == bus.StreamJournal {
				return membus.Nack
			}
			return membus.Answer
		})
		r.task("t-1", "build", "")
		r.pass(time.Second)
		if !strings.Contains(r.log.String(), "the broker does not take what must be in coordinator.journal") {
			t.Errorf("log:\n%s", r.log)
		}
		if n := len(r.in("agent.a1")); n != 0 {
			t.Errorf("%d dispatches without a journal", n)
		}
		r.broker.SetConfirm(nil)
		r.pass(backoffMax)
		r.only("agent.a1")
	})
}

// Without a journal a session begins with what queues and agents say, and writes none.
func TestWithoutJournal(t *testing.T) {
	inRig(t, fleet+"journal: {enabled: false}\n", func(r *rig) {
		bindAll(r)
		r.worker("a1", true)
		r.task("t-1", "build", "")
		r.broker.Cut()
		r.pass(5 * time.Second)
		r.connect()
		if st := r.status(); st.Journal != nil || st.Pending.Leased != 0 || len(r.broker.Messages(bus.StreamJournal)) != 0 {
			t.Errorf("journal %+v, %d leased, %d messages; want none of it", st.Journal, st.Pending.Leased,
				len(r.broker.Messages(bus.StreamJournal)))
		}
		r.publish(bus.StreamResult, resultBody("a1", "t-1", "succeeded", `,"dispatch_id":"t-1.1"`))
		if n := len(r.events("task.completed")); n != 1 {
			t.Errorf("%d ends announced, want that of the task assigned in the session before", n)
		}
	})
}
