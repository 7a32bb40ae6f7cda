package outbox

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// What is parked keeps of its headers what is ours and the trace, and no word of the broker's that it would obey.
func TestHeadersOfWhatIsParked(t *testing.T) {
	d := &bus.Delivery{Queue: "task.assign", Body: []byte("{"), Properties: bus.Properties{UserID: "shop",
		Expiration: time.Minute, Headers: map[string]any{"x-death": []any{}, "cc": []any{"elsewhere"},
			messages.HeaderTraceParent: []byte("00-trace"), messages.HeaderTried: 7}}}
	p := Parked(d, coordinator.ReasonInvalidMessage, "no JSON", noon)
	if len(p.Headers) != 4 || p.Headers[messages.HeaderReason] != "no JSON" ||
		p.Headers[messages.HeaderReasonCode] != "invalid_message" ||
		p.Headers[messages.HeaderSourceQueue] != "task.assign" || p.Headers[messages.HeaderTraceParent] != "00-trace" {
		t.Errorf("headers %v", p.Headers)
	}
	if p.Key != bus.QueueDead || p.UserID != "" || p.Expiration != 0 || !p.Timestamp.Equal(noon) || string(p.Body) != "{" {
		t.Errorf("%+v", p)
	}
	stub := Stub(&p, d, noon)
	if !strings.HasPrefix(string(stub.Body), `{"message_type":"task.dead.stub","queue":"task.assign","bytes":1,`+
		`"xxhash64":"`) ||
		stub.Type != TypeStub || stub.Headers[messages.HeaderReason] != "no JSON" || len(stub.Headers) != 3 {
		t.Errorf("in its place: %+v, %s", stub, stub.Body)
	}
}

// Offers to one agent go together; what is over when their turn comes is left out, and a letter with nothing in it is
// no message.
func TestOffersGatherByAgent(t *testing.T) {
	o := NewOffers()
	offer := func(agent coordinator.AgentID, auction string, until time.Time) {
		f := &coordinator.Offer{Agent: agent, AuctionID: auction, Task: &coordinator.Task{ID: "t-1", Type: "build"}}
		if full := o.Add(f, until, func() {}); full != nil {
			t.Fatalf("%d letters must not wait", len(full))
		}
	}
	offer("a1", "t-1.1", noon.Add(time.Second))
	offer("a2", "t-1.1", noon)
	offer("a1", "t-2.1", noon)
	offer("a1", "t-3.1", noon.Add(2*time.Second))
	letters := o.Take()
	if len(letters) != 2 || letters[0].Agent != "a1" || letters[1].Agent != "a2" || o.Take() != nil {
		t.Fatalf("letters %+v", letters)
	}
	sender := Sender{User: "taskbus", At: noon}
	for i, want := range []int{2, 0} {
		messages := 0
		for p, offers := range sender.Available(letters[i]) {
			messages++
			if offers != want || p.Expiration != 2*time.Second || p.Key != "a1" || p.MessageID != "t-1.1.available" {
				t.Errorf("%d offers in %+v", offers, p)
			}
		}
		if messages != min(want, 1) {
			t.Errorf("%d messages to %s", messages, letters[i].Agent)
		}
	}
	for range messages.MaxOffers - 1 {
		offer("a3", "t-1.1", noon)
	}
	full := o.Add(&coordinator.Offer{Agent: "a3", Task: &coordinator.Task{}}, noon, func() {})
	if len(full) != 1 || len(full[0].offers) != messages.MaxOffers {
		t.Errorf("one that is full is to go at once: %+v", full)
	}
}

// Only an answer to a bid or claim is one.
func TestReplies(t *testing.T) {
	sender := Sender{User: "taskbus", At: noon}
	for id, f := range map[string]coordinator.Effect{
		"t-1.1.awarded":      coordinator.Award{Agent: "a1", AuctionID: "t-1.1"},
		"t-1.1.bid_rejected": coordinator.RejectBid{Agent: "a1", AuctionID: "t-1.1"},
		"t-1.bid_rejected":   coordinator.RejectBid{Agent: "a1", Task: "t-1"},
		"c-1.granted":        coordinator.ClaimAnswered{Agent: "a1", ClaimID: "c-1"},
		"a1.new_session":     coordinator.ClaimsForgotten{Agent: "a1"},
	} {
		p, is := sender.Reply(f)
		if !is || p.MessageID != id || p.Key != "a1" || !p.Optional || p.Token != Ignored || p.Expiration != ReplyLife ||
			p.UserID != "taskbus" {
			t.Errorf("%T: %+v, want %s", f, p, id)
		}
	}
	if p, is := sender.Reply(coordinator.Ack{}); is {
		t.Errorf("an acknowledgement is %+v", p)
	}
}
