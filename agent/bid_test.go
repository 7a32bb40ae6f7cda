package agent_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

func TestDefaultBidder(t *testing.T) {
	mine := []string{"gpu", "cuda", "go"}
	for _, tt := range []struct {
		name     string
		required []string
		typical  time.Duration
		active   int // of two slots
		want     agent.Bid
		wants    bool
	}{
		{"nothing required: 1", nil, 0, 0, agent.Bid{Fitness: 1, Duration: time.Minute}, true},
		{"all of them: 2/2", []string{"gpu", "go"}, 0, 0, agent.Bid{Fitness: 1, Duration: time.Minute}, true},
		{"what it can besides adds nothing: 1/1", []string{"go"}, 0, 0, agent.Bid{Fitness: 1, Duration: time.Minute}, true},
		{"2/4, at the threshold", []string{"gpu", "go", "c", "d"}, 0, 0, agent.Bid{Fitness: 0.5, Duration: time.Minute},
			true},
		{"1/3, below it", []string{"gpu", "c", "d"}, 0, 0, agent.Bid{}, false},
		{"0/1", []string{"c"}, 0, 0, agent.Bid{}, false},
		{"a measured duration", []string{"gpu"}, 3 * time.Second, 0, agent.Bid{Fitness: 1, Duration: 3 * time.Second}, true},
		{"one slot left, for which it has bid already", nil, 0, 1, agent.Bid{Fitness: 1, Duration: time.Minute}, true},
		{"no slot", nil, 0, 2, agent.Bid{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bid, wants := agent.DefaultBidder(0.5, time.Minute)(agent.Offer{
				Required: tt.required, Typical: tt.typical, Agent: agent.State{Slots: 2, Active: tt.active, Bids: 1,
					Free: max(0, 1-tt.active), Capabilities: mine},
			})
			if wants != tt.wants || wants && bid != tt.want {
				t.Errorf("%+v, %v, want %+v, %v", bid, wants, tt.want, tt.wants)
			}
		})
	}
}

// wantsAll bids for everything.
func wantsAll(agent.Offer) (agent.Bid, bool) { return agent.Bid{Fitness: 1}, true }

// What the Bidder is told, and what goes out.
func TestBid(t *testing.T) {
	inRig(t, func(r *rig) {
		var told []agent.Offer
		c := r.config()
		c.Slots, c.Capabilities = 4, []string{"gpu"}
		c.Bidder = func(o agent.Offer) (agent.Bid, bool) {
			told = append(told, o)
			return agent.Bid{Fitness: 0.75, Duration: 1500 * time.Millisecond, Relevance: 0.5, HasRelevance: true},
				o.TaskID == "t"
		}
		r.runWith(c, work(4*time.Second))
		r.give("one") // takes 4 s
		r.pass(4 * time.Second)
		r.give("two")
		deadline := time.Now().Add(time.Hour)
		body, _ := messages.AppendTaskAvailable(nil, "a1", []messages.TaskOffer{
			{TaskID: "t", AuctionID: "t.3", TaskType: "sum", RequiredCapabilities: []string{"gpu", "go"}, BidWindowMS: 400,
				Attempt:     3,
				Description: "add them up", Priority: 2, Deadline: deadline, CorrelationID: "trace-t"},
			{TaskID: "u", AuctionID: "u.1", TaskType: "other", BidWindowMS: 400, Attempt: 1, Priority: 1},
		})
		at := time.Now()
		r.tell(body)
		mine := agent.State{Slots: 4, Active: 1, Free: 3, Capabilities: []string{"gpu"}}
		first := agent.Offer{
			TaskID: "t", Type: "sum", Required: []string{"gpu", "go"}, Description: "add them up", Priority: 2,
			Deadline: deadline.UTC(),
			Attempt:  3, CorrelationID: "trace-t", Until: at.Add(400 * time.Millisecond), Typical: 4 * time.Second, Agent: mine,
		}
		mine.Bids, mine.Free = 1, 2 // the bid for t
		second := agent.Offer{TaskID: "u", Type: "other", Priority: 1, Attempt: 1, Until: first.Until, Agent: mine}
		for i := range told {
			told[i].Deadline = told[i].Deadline.UTC()
			told[i].Required = append([]string(nil), told[i].Required...)
		}
		if want := []agent.Offer{first, second}; !reflect.DeepEqual(told, want) {
			t.Errorf("told %+v\nwant %+v", told, want)
		}
		sent := requests[*messages.TaskBid](r)
		if len(sent) != 1 {
			t.Fatalf("%d bids, want 1", len(sent))
		}
		want := messages.TaskBid{TaskID: "t", AuctionID: "t.3", AgentID: "a1", Fitness: 0.75, ActiveTasks: 1,
			EstimatedDurationSeconds: 1.5, Relevance: 0.5, HasRelevance: true, CorrelationID: "trace-t"}
		if !reflect.DeepEqual(*sent[0].said, want) {
			t.Errorf("bid %+v\nwant %+v", *sent[0].said, want)
		}
		if p := sent[0].Properties; p.Type != "task.bid" || p.UserID != "a1" || p.MessageID != "t.3" ||
			p.CorrelationID != "trace-t" || p.Expiration != 0 {
			t.Errorf("properties %+v", p)
		}
	})
}

// What is offered together is answered together: one message, unless the Bidder needs
// longer than 2 ms, which would make the first bids late.
func TestBidsGoTogether(t *testing.T) {
	for _, tt := range []struct {
		name     string
		thinks   time.Duration // about each offer
		messages []int         // bids in each
	}{
		{"at once", 0, []int{3}},
		{"slowly", 2 * time.Millisecond, []int{1, 1, 1}},
		{"1.5 + 1.5 > 2 ms", 1500 * time.Microsecond, []int{2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.bidding(3, func(o agent.Offer) (agent.Bid, bool) { time.Sleep(tt.thinks); return wantsAll(o) }, nothing)
				r.offer("t", "u", "v")
				r.pass(10 * time.Millisecond)
				r.expectBids("t u v")
				var sent []int
				for _, m := range requests[messages.Request](r) {
					if several, ok := m.said.(*messages.TaskBids); ok {
						if p := m.Properties; p.Type != "task.bids" || p.UserID != "a1" || p.MessageID != several.Bids[0].AuctionID ||
							p.Expiration != 0 {
							t.Errorf("properties %+v", p)
						}
						sent = append(sent, len(several.Bids))
						continue
					}
					sent = append(sent, 1)
				}
				if !slices.Equal(sent, tt.messages) {
					t.Errorf("messages with %v bids, want %v", sent, tt.messages)
				}
			})
		})
	}
}

// A Bidder that ends its goroutine has bid for what came before all the same.
func TestBidsBeforeTheBidderEnds(t *testing.T) {
	inRig(t, func(r *rig) {
		r.bidding(3, func(o agent.Offer) (agent.Bid, bool) {
			if o.TaskID == "u" {
				runtime.Goexit()
			}
			return wantsAll(o)
		}, nothing)
		r.offer("t", "u", "v")
		r.expectBids("t v")
	})
}

// asLongAsItIsCalled takes 3 s for "3s", and fails at what is not called so.
func asLongAsItIsCalled(_ context.Context, task *agent.Task) (agent.Result, error) {
	took, err := time.ParseDuration(task.ID)
	time.Sleep(took)
	return agent.Result{}, err
}

// The mean of 1, 2 and 6 s is 3 s; what has failed does not count.
func TestTypicalDuration(t *testing.T) {
	inRig(t, func(r *rig) {
		var typical time.Duration
		r.bidding(1, func(o agent.Offer) (agent.Bid, bool) { typical = o.Typical; return agent.Bid{}, false },
			asLongAsItIsCalled)
		for _, task := range []string{"1s", "2s", "6s", "fail"} {
			r.give(task)
			r.pass(9 * time.Second)
		}
		r.offer("t")
		if typical != 3*time.Second {
			t.Errorf("typical duration %v, want 3s", typical)
		}
	})
}

// modest bids for no more than it has slots for, should it win all.
func modest(o agent.Offer) (agent.Bid, bool) { return agent.Bid{Fitness: 1}, o.Agent.Free > 0 }

// Each step offers tasks or says something of them, in one agent with two slots.
func TestOpenBidsTakeSlots(t *testing.T) {
	const window = 500 * time.Millisecond
	for _, tt := range []struct {
		name string
		play func(r *rig)
		want string
	}{
		{"three at once: two slots", func(r *rig) { r.offer("a", "b", "c") }, "a b"},
		{"while the windows are open, no more", func(r *rig) {
			r.offer("a", "b")
			r.pass(window - time.Nanosecond)
			r.offer("c")
		}, "a b"},
		{"when nothing was heard until they close", func(r *rig) {
			r.offer("a", "b")
			r.pass(window)
			r.offer("c", "d", "e")
		}, "a b c d"},
		{"one that has lost is free at once", func(r *rig) {
			r.offer("a", "b")
			r.rejectBid("a", messages.BidLost)
			r.offer("c", "d")
		}, "a b c"},
		{"a copy that was refused leaves the bid as it is", func(r *rig) {
			r.offer("a", "b")
			r.rejectBid("a", messages.BidDuplicate)
			r.offer("c")
		}, "a b"},
		{"the same auction again is answered once", func(r *rig) { r.offer("a"); r.offer("a"); r.offer("b") }, "a b"},
		{"one that has won keeps its slot for 5 s", func(r *rig) {
			r.offer("a", "b")
			r.award("a")
			r.pass(5*time.Second - time.Nanosecond)
			r.offer("c", "d") // b's window has closed
		}, "a b c"},
		{"and no longer, should it not come", func(r *rig) {
			r.offer("a", "b")
			r.award("a")
			r.pass(5 * time.Second)
			r.offer("c", "d")
		}, "a b c d"},
		{"what has come is active instead: one slot each", func(r *rig) {
			r.offer("a")
			r.award("a")
			r.give("a")
			r.offer("b", "c")
		}, "a b"},
		{"and so when it comes before the award", func(r *rig) {
			r.offer("a")
			r.give("a")
			r.award("a")
			r.offer("b", "c")
		}, "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.bidding(2, modest, work(time.Minute))
				tt.play(r)
				r.expectBids(tt.want)
			})
		})
	}
}

// The Bidder takes 300 ms, the windows are 500 ms: the second answer is ready at
// 600 ms, and the third is not asked for.
func TestLateOffersAreNotAnswered(t *testing.T) {
	inRig(t, func(r *rig) {
		asked := 0
		r.bidding(9, func(agent.Offer) (agent.Bid, bool) {
			asked++
			time.Sleep(300 * time.Millisecond)
			return agent.Bid{Fitness: 1}, true
		}, nothing)
		r.offer("a", "b", "c")
		r.pass(time.Minute)
		r.expectBids("a")
		if asked != 2 {
			t.Errorf("the Bidder was asked %d times, want 2", asked)
		}
	})
}

// A Bidder that hangs holds up nothing else: withdrawals are obeyed, and Run returns.
func TestBidderThatHangs(t *testing.T) {
	inRig(t, func(r *rig) {
		hang := make(chan struct{})
		defer close(hang)
		a := r.bidding(1, func(agent.Offer) (agent.Bid, bool) { <-hang; return agent.Bid{}, false }, work(time.Hour))
		tasks := make([]string, 1026) // the first is with the Bidder, 1024 wait
		for i := range tasks {
			tasks[i] = fmt.Sprint("t", i)
		}
		r.offer(tasks...)
		r.expectLog("the Bidder is too slow", 1)
		r.expectLog("offers=1 ", 1)
		r.give("long")
		r.withdraw(messages.TaskCancel{TaskID: "long"})
		r.expect("long cancelled")
		a.stop()
		r.pass(5 * time.Second)
		select {
		case err := <-a.done:
			a.done <- err
		default:
			t.Error("Run waits for the Bidder")
		}
		r.expectBids("")
	})
}

// What a Bidder does wrong is no bid, and the next offer is answered as ever.
func TestBidderThatGoesWrong(t *testing.T) {
	bid := func(b agent.Bid) agent.Bidder {
		return func(agent.Offer) (agent.Bid, bool) { return b, true }
	}
	for _, tt := range []struct {
		name   string
		bidder agent.Bidder
		log    string
	}{
		{"panics", func(agent.Offer) (agent.Bid, bool) { panic("secret words") }, "the Bidder panicked"},
		{"ends its goroutine", func(agent.Offer) (agent.Bid, bool) { runtime.Goexit(); return agent.Bid{}, true }, ""},
		{"fitness is no number", bid(agent.Bid{Fitness: math.NaN()}), "its Fitness is not 0 to 1"},
		{"fitness above 1", bid(agent.Bid{Fitness: 1.01}), "its Fitness is not 0 to 1"},
		{"fitness below 0", bid(agent.Bid{Fitness: -0.01}), "its Fitness is not 0 to 1"},
		{"negative duration", bid(agent.Bid{Duration: -1}), "its Duration is negative"},
		{"relevance is no number", bid(agent.Bid{Relevance: math.NaN(), HasRelevance: true}), "its Relevance is not 0 to 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.bidding(1, func(o agent.Offer) (agent.Bid, bool) {
					if o.TaskID == "bad" {
						return tt.bidder(o)
					}
					return wantsAll(o)
				}, nothing)
				r.offer("bad", "good")
				r.expectBids("good")
				if tt.log != "" {
					r.expectLog(tt.log, 1)
				}
				r.expectLog("secret words", 0)
			})
		})
	}
}

func TestWhoDoesNotBid(t *testing.T) {
	t.Run("an agent without a Bidder", func(t *testing.T) {
		inRig(t, func(r *rig) {
			r.run(1, nothing)
			r.offer("a")
			r.award("a")
			r.rejectBid("a", messages.BidLost)
			r.expectBids("")
			r.expectLog("level=WARN", 0)
		})
	})
	t.Run("one that leaves", func(t *testing.T) {
		inRig(t, func(r *rig) {
			a := r.bidding(2, wantsAll, work(10*time.Second))
			r.give("t")
			a.stop()
			r.pass(time.Second)
			r.offer("a")
			r.expectBids("")
		})
	})
	t.Run("one that is not meant", func(t *testing.T) {
		inRig(t, func(r *rig) {
			r.bidding(1, wantsAll, nothing)
			body, _ := messages.AppendTaskAvailable(nil, "a2",
				[]messages.TaskOffer{{TaskID: "t", AuctionID: "t.1", TaskType: "sum", BidWindowMS: 500, Attempt: 1}})
			r.tell(body)
			r.expectBids("")
			r.expectLog("a control message for another agent came to this one", 1)
		})
	})
}

// Bids that the broker does not take are told of once, and nothing is sent again; the
// session and its heartbeats go on.
func TestBidsThatTheBrokerDoesNotTake(t *testing.T) {
	inRig(t, func(r *rig) {
		r.bidding(9, wantsAll, nothing)
		r.broker.SetConfirm(unroutable(bus.QueueRequest))
		before := len(r.statuses())
		r.offer("a", "b")
		r.pass(3 * time.Second)
		r.expectLog("does not take this agent's bids and claims", 1)
		if n := len(r.statuses()); n != before {
			t.Errorf("%d heartbeats more", n-before)
		}
		r.broker.SetConfirm(nil)
		r.offer("c")
		r.expectBids("c")
	})
}

// What was offered in a session that has ended is not answered in the next; there a new
// offer is.
func TestBidsBelongToTheirSession(t *testing.T) {
	inRig(t, func(r *rig) {
		r.bidding(9, func(o agent.Offer) (agent.Bid, bool) {
			if o.TaskID == "a" {
				time.Sleep(100 * time.Millisecond)
			}
			return wantsAll(o)
		}, nothing)
		r.offer("a")
		r.cut()
		r.pass(time.Second)
		r.offer("b")
		r.expectBids("b")
	})
}
