package outbox

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// noticeBroker keeps what is published, and what it is asked and told.
type noticeBroker struct {
	sent    []bus.Publication
	refuses func(p *bus.Publication) error
	matches bool
	said    []string
}

func (b *noticeBroker) Publish(p bus.Publication) error {
	if b.refuses != nil {
		if err := b.refuses(&p); err != nil {
			return err
		}
	}
	b.sent = append(b.sent, p)
	return nil
}

func (b *noticeBroker) EnsureQueue(_ context.Context, q bus.Queue) (bool, error) {
	b.said = append(b.said, "ensured "+q.Name)
	return true, nil
}

func (b *noticeBroker) Matches(string) bool { return b.matches }

func (b *noticeBroker) NotTaken(queue string, outcome bus.Outcome) {
	b.said = append(b.said, queue+" "+outcome.String())
}

func (b *noticeBroker) CannotPark(queue string, _ *bus.EncodingError) {
	b.said = append(b.said, "cannot park of "+queue)
}

// noticing has notices on a broker of the test.
type noticing struct {
	noticeBroker
	notices Notices
	done    []bool // reject, of each that is done
}

func newNoticing() *noticing {
	n := &noticing{}
	n.notices = Notices{Bus: &n.noticeBroker, Tickets: NewTickets(), Now: time.Now,
		Add: func(publish func()) { publish() },
		Log: &n.noticeBroker}
	return n
}

// says publishes what is to be said of a delivery.
func (n *noticing) says(d *bus.Delivery, pubs ...bus.Publication) {
	n.notices.Publish(d, pubs, func(reject bool) { n.done = append(n.done, reject) })
}

// answers the latest publication.
func (n *noticing) answers(outcome bus.Outcome) {
	n.notices.Tickets.Redeem(n.sent[len(n.sent)-1].Token)(outcome)
}

var (
	taken   = bus.Delivery{Queue: bus.QueueAssign, Body: []byte("{")}
	failing = bus.Publication{Exchange: bus.ExchangeEvents, Key: bus.QueueFailed + ".timeout"}
	copied  = bus.Publication{Key: "replies", Optional: true}
	parking = Parked(&taken, coordinator.ReasonInvalidMessage, "not JSON", time.Time{})
)

// A delivery is settled when the broker has all that is said of it, and no earlier; a copy that it does not take does
// not keep it.
func TestDeliveryWaitsForItsNotices(t *testing.T) {
	n := newNoticing()
	n.says(&taken, failing, copied, parking)
	tokens := []uint64{n.sent[0].Token, n.sent[1].Token, n.sent[2].Token}
	for i, outcome := range []bus.Outcome{bus.Confirmed, bus.Unroutable, bus.Confirmed} {
		if len(n.done) != 0 {
			t.Fatalf("done after %d of 3 answers", i)
		}
		n.notices.Tickets.Redeem(tokens[i])(outcome)
	}
	if !slices.Equal(n.done, []bool{false}) || n.notices.Tickets.Count() != 0 || len(n.said) != 0 {
		t.Errorf("done %v, %d open, said %q", n.done, n.notices.Tickets.Count(), n.said)
	}
}

// What the broker does not take is sent again until it does; where there was no way, the queue is seen to, and the
// notice goes there directly.
func TestNoticesAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNoticing()
		n.says(&taken, failing)
		n.answers(bus.Rejected)
		time.Sleep(NoticePause)
		synctest.Wait()
		n.answers(bus.Unroutable)
		time.Sleep(NoticePause)
		synctest.Wait()
		if len(n.sent) != 3 || n.sent[1].Key != failing.Key || n.sent[2].Exchange != "" || n.sent[2].Key != bus.QueueFailed {
			t.Fatalf("sent %+v", n.sent)
		}
		n.answers(bus.Confirmed)
		want := []string{bus.QueueFailed + " rejected", bus.QueueFailed + " unroutable", "ensured " + bus.QueueFailed}
		if !slices.Equal(n.said, want) || !slices.Equal(n.done, []bool{false}) {
			t.Errorf("said %q, want %q; done %v", n.said, want, n.done)
		}
	})
}

// When the session ends the delivery is the broker's again.
func TestNoticesOfASessionThatEnds(t *testing.T) {
	n := newNoticing()
	n.says(&taken, failing, copied)
	n.answers(bus.Unknown)
	n.refuses = func(*bus.Publication) error { return bus.ErrClosed }
	n.says(&taken, failing)
	if len(n.done) != 0 {
		t.Errorf("done %v", n.done)
	}
}

// A message that cannot be published to task.dead as it is goes there by its queue's rule, if that is known; else a
// note stands for it. A failure of which nothing can be sent is done with.
func TestWhatCannotBeEncoded(t *testing.T) {
	tooLarge := func(p *bus.Publication) error {
		if p.Type == TypeStub {
			return nil
		}
		return &bus.EncodingError{Reason: "too large"}
	}
	for name, c := range map[string]struct {
		delivery *bus.Delivery
		what     bus.Publication
		matches  bool
		refuses  func(*bus.Publication) error
		stub     bool
		done     []bool
	}{
		"by the queue's rule": {&taken, parking, true, tooLarge, false, []bool{true}},
		"a note":              {&taken, parking, false, tooLarge, true, []bool{false}},
		"not even a note": {&taken, parking, false, func(*bus.Publication) error { return &bus.EncodingError{} }, false,
			[]bool{false}},
		"a copy":                {&taken, copied, false, tooLarge, false, []bool{false}},
		"of no delivery":        {nil, failing, false, tooLarge, false, []bool{false}},
		"it can be sent, alone": {nil, failing, false, nil, false, []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNoticing()
			n.matches, n.refuses = c.matches, c.refuses
			n.says(c.delivery, c.what)
			if len(n.sent) > 0 {
				if stub := n.sent[0].Type == TypeStub; stub != c.stub || stub &&
					!strings.Contains(string(n.sent[0].Body), `"bytes":1,`) {
					t.Errorf("sent %+v %s", n.sent[0].Properties, n.sent[0].Body)
				}
				n.answers(bus.Confirmed)
			}
			if !slices.Equal(n.done, c.done) || n.notices.Tickets.Count() != 0 {
				t.Errorf("done %v, want %v; %d open", n.done, c.done, n.notices.Tickets.Count())
			}
		})
	}
}
