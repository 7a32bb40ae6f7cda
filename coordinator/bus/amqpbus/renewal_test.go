package amqpbus

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

func TestRenewalIsDue(t *testing.T) {
	var r renewal
	begin := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		at   time.Duration
		want bool
	}{
		{0, true},                         // the next in 1 s at the earliest
		{999 * time.Millisecond, false},   //
		{time.Second, true},               // 1 + 2 = 3 s
		{2999 * time.Millisecond, false},  //
		{3 * time.Second, true},           // 3 + 4 = 7 s
		{7 * time.Second, true},           // 7 + 8 = 15 s
		{60 * time.Second, true},          // 60 + 16 = 76 s
		{75 * time.Second, false},         //
		{76 * time.Second, true},          // 76 + 32 = 108 s
		{130 * time.Second, true},         // 130 + 60 (not 64) = 190 s
		{189 * time.Second, false},        //
		{190 * time.Second, true},         // 190 + 60 = 250 s
		{251 * time.Second, true},         // nothing for 61 s: the pauses begin anew, 252 s
		{252*time.Second - 1, false},      //
		{252 * time.Second, true},         //
		{252*time.Second + 1999e6, false}, // 252 + 2 = 254 s
		{254 * time.Second, true},         //
	} {
		if got := r.due(begin.Add(step.at)); got != step.want {
			t.Errorf("refused after %v: another channel %v, want %v", step.at, got, step.want)
		}
	}
}

// TestRefusedPublisherGoesOnWithAnotherChannel: one queue refuses everything, while four
// publish to it and to another. Everything is answered, the other queue gets all, in order,
// and the channel has changed.
func TestRefusedPublisherGoesOnWithAnotherChannel(t *testing.T) {
	t.Parallel()
	const publishers, each = 4, 3000
	var mu sync.Mutex
	outcomes := map[bus.Outcome]int{}
	answers := map[uint64]int{}
	s, err := New(Config{URL: brokertest.Vhost(t).URL}).Open(t.Context(), bus.SessionSpec{
		Name: "t", Window: 64,
		Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{
			{Name: "full", Kind: bus.Quorum, MaxLength: 1, DeliveryLimit: 10},
			{Name: "other", Kind: bus.Quorum, DeliveryLimit: 10},
		}},
		OnSettled: func(token uint64, o bus.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			answers[token]++
			outcomes[o]++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.WithoutCancel(t.Context()))
	p := s.(*session).publishers.mandatory
	before := p.channel
	var publishing sync.WaitGroup
	for from := range publishers {
		publishing.Go(func() {
			for i := range each {
				token := uint64(from*each + i)
				pub := bus.Publication{Key: "other", Token: token, Body: binary.BigEndian.AppendUint64(nil, token)}
				if i%10 == 0 {
					pub.Key = "full"
				}
				if err := s.Publish(pub); err != nil {
					t.Errorf("publish: %v", err)
				}
			}
		})
	}
	publishing.Wait()
	if err := p.drained(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.uses(before) {
		t.Error("the channel is still the same")
	}
	mu.Lock()
	full := publishers * each / 10
	if len(answers) != publishers*each || outcomes[bus.Rejected] == 0 ||
		outcomes[bus.Confirmed]+outcomes[bus.Rejected] != publishers*each || outcomes[bus.Rejected] > full {
		t.Errorf("%d of %d answered: %v", len(answers), publishers*each, outcomes)
	}
	mu.Unlock()

	next := [publishers]uint64{}
	got := make(chan uint64, publishers*each)
	if err := s.Subscribe(t.Context(), bus.Subscription{Queue: "other", Prefetch: 1000, Handle: func(d bus.Delivery) {
		got <- binary.BigEndian.Uint64(d.Body)
		s.Ack(d.Tag)
	}}); err != nil {
		t.Fatal(err)
	}
	for n := range publishers * each * 9 / 10 {
		select {
		case token := <-got:
			if from := token / each; token < next[from] {
				t.Fatalf("%d came after %d", token, next[from])
			} else {
				next[from] = token
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("only %d messages came", n)
		}
	}
}
