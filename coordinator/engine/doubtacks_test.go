package engine

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestManyAcknowledgements: no more than maxInDoubt are looked at, the latest.
func TestManyAcknowledgements(t *testing.T) {
	var d inDoubt
	for i := range maxInDoubt + 1 {
		d.acked(epoch.Add(time.Duration(i)), coordinator.TaskKey{uint64(i)})
	}
	if len(d.acks) != maxInDoubt || d.acks[0].key != (coordinator.TaskKey{maxInDoubt}) ||
		d.acks[1].key != (coordinator.TaskKey{1}) {
		t.Errorf("%d in doubt, the first %v and %v", len(d.acks), d.acks[0], d.acks[1])
	}
}
