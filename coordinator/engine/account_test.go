package engine

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// An agent whose heartbeats carry a timestamp that stands still, as those of a cached body do, is
// believed to have made them when they come: the ends before that are not kept.
func TestEndsBehindAClockThatStands(t *testing.T) {
	r := tracking(t, policyOf(worker("a").slots(1000)))
	stands := r.now
	for i := range 200 {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.give(job(id))
		r.tell(says("a", id))
		if i%10 == 9 {
			r.pass(100 * time.Millisecond)
			r.hear(beat("a").running().stamped(stands))
			if n := len(r.fleet.byID["a"].recent); n > 10 {
				t.Fatalf("after %d tasks %d ends are kept, at most the 10 since the last heartbeat", i+1, n)
			}
		}
	}
}
