package service

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
)

// TestLargeInputsAreRecorded: the text of quotas that is larger than a message may be is recorded as
// any, dispatching goes on, and the recording can be replayed.
func TestLargeInputsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet+"journal: {record_inputs: true}\n")
		quotas := quotasIn(t, limited)
		quotas.Source += strings.Repeat("# "+strings.Repeat("x", 998)+"\n", 9_000) // as of 90,000 groups, and read in no time
		r.service.underFile(r.service.config.Load().WithQuotas(quotas))
		r.start()
		defer r.close()
		r.tenSlots()
		for i := range 3 {
			r.task(fmt.Sprint("t-", i), "build", usage(10, 10, "rich"))
		}
		r.pass(time.Minute)
		if st := r.status(); st.Counters.Dispatched != 3 || r.service.sessions.Load() != 1 {
			t.Errorf("%d dispatched in %d sessions; log:\n%s", st.Counters.Dispatched, r.service.sessions.Load(), r.log)
		}
		r.replays(3)
	})
}

// TestJournalTooLarge: what must be in the journal and can never be sent ends the session; the
// next one leads.
func TestJournalTooLarge(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.pass(time.Second)
		before := r.service.current.Load()
		before.ledger.writer.inputs <- make([]byte, bus.MaxBody+1) // no message, and so not put into pieces
		r.pass(time.Minute)
		if after := r.service.current.Load(); after == nil || after == before || !strings.Contains(r.log.String(), "write to the journal: message cannot be encoded") {
			t.Errorf("the session goes on, and writes nothing; log:\n%s", r.log)
		}
	})
}
