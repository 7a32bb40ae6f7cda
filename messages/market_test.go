package messages

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/schemas"
	"taskbus/tests/support/jsonkeys"
)

// What is sent is what is read, for every message of auctions and claims.
func TestMarketRoundTrip(t *testing.T) {
	d := newDecoder(t)
	trace := rapid.StringMatching(`[ -~]{0,20}`)
	unit, amount := rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e9)
	// What is less than leastAmount is sent as nothing.
	from := func(t *rapid.T, g *rapid.Generator[float64], label string) float64 {
		return g.Filter(func(f float64) bool { return f == 0 || f >= leastAmount }).Draw(t, label)
	}
	check := func(t *rapid.T, schema string, body []byte, want any, got any, refusal *Refusal) {
		t.Helper()
		switch {
		case refusal != nil:
			t.Fatalf("%s\n%s", refusal.Text, body)
		case !reflect.DeepEqual(got, want):
			t.Fatalf("got  %+v\nwant %+v\n%s", got, want, body)
		}
		fits(t, d.set, schema, body)
	}
	task := func(t *rapid.T) coordinator.TaskID { return coordinator.TaskID(genID(t)) }
	for name, one := range map[string]func(t *rapid.T){
		schemas.TaskBid: func(t *rapid.T) {
			m := &TaskBid{TaskID: task(t), AuctionID: genID(t), AgentID: genAgentID(t), Fitness: from(t, unit, "fitness"),
				ActiveTasks: rapid.IntRange(0, maxCount).Draw(t, "active"), EstimatedDurationSeconds: from(t, amount, "duration"),
				CorrelationID: trace.Draw(t, "trace")}
			if m.HasRelevance = rapid.Bool().Draw(t, "relevant"); m.HasRelevance {
				m.Relevance = from(t, unit, "relevance")
			}
			body := AppendTaskBid(nil, m)
			got, refusal := d.DecodeRequest(body)
			check(t, schemas.TaskBid, body, m, got, refusal)
		},
		schemas.TaskBids: func(t *rapid.T) {
			m := &TaskBids{AgentID: genAgentID(t)}
			for range rapid.IntRange(1, 5).Draw(t, "bids") {
				m.Bids = append(m.Bids, TaskBid{TaskID: task(t), AuctionID: genID(t), AgentID: m.AgentID,
					Fitness: from(t, unit, "fitness"), ActiveTasks: rapid.IntRange(0, maxCount).Draw(t, "active")})
			}
			body, others := AppendTaskBids(nil, m.AgentID, m.Bids)
			if len(others) > 0 {
				t.Fatalf("%d bids are left", len(others))
			}
			got, refusal := d.DecodeRequest(body)
			check(t, schemas.TaskBids, body, m, got, refusal)
		},
		schemas.TaskClaim: func(t *rapid.T) {
			m := &TaskClaim{AgentID: genAgentID(t), ClaimID: genID(t), MaxItems: rapid.IntRange(1, maxClaim).Draw(t, "max"),
				PendingItems:           rapid.IntRange(0, MaxPending).Draw(t, "pending"),
				CapacityItemsPerSecond: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(MinRate, MaxRate)).Draw(t, "capacity"),
				WaitSeconds:            from(t, rapid.Float64Range(0, maxWait), "wait")}
			body := AppendTaskClaim(nil, m)
			got, refusal := d.DecodeRequest(body)
			check(t, schemas.TaskClaim, body, m, got, refusal)
		},
		schemas.TaskAwarded: func(t *rapid.T) {
			m := &TaskAwarded{TaskID: task(t), AuctionID: genID(t), AgentID: genAgentID(t), DispatchID: genID(t),
				CorrelationID: trace.Draw(t, "trace")}
			body := AppendTaskAwarded(nil, m)
			got, refusal := d.DecodeControl(body)
			check(t, schemas.TaskAwarded, body, m, got, refusal)
		},
		schemas.BidRejected: func(t *rapid.T) {
			m := &BidRejected{TaskID: task(t), AuctionID: genID(t), AgentID: genAgentID(t),
				Reason: rapid.SampledFrom(BidReasons()).Draw(t, "reason"), CorrelationID: trace.Draw(t, "trace")}
			body := AppendBidRejected(nil, m)
			got, refusal := d.DecodeControl(body)
			check(t, schemas.BidRejected, body, m, got, refusal)
		},
		schemas.TaskGranted: func(t *rapid.T) {
			items := rapid.IntRange(0, maxAmount)
			m := &TaskGranted{AgentID: genAgentID(t), ClaimID: genID(t), Granted: rapid.IntRange(0, maxClaim).Draw(t, "granted"),
				Reason: rapid.StringMatching(`[ -~]{0,30}`).Draw(t, "reason"),
				Fleet: GrantFleet{Agents: rapid.IntRange(0, maxCount).Draw(t, "agents"), PendingItems: items.Draw(t, "pending"),
					UnclaimedItems:         items.Draw(t, "unclaimed"),
					CapacityItemsPerSecond: from(t, rapid.Float64Range(0, maxAmount), "capacity"),
					TargetDrainSeconds:     from(t, amount, "target"), FairShareItems: items.Draw(t, "share")}}
			body := AppendTaskGranted(nil, m)
			got, refusal := d.DecodeControl(body)
			check(t, schemas.TaskGranted, body, m, got, refusal)
		},
		schemas.TaskAvailable: func(t *rapid.T) {
			m := &TaskAvailable{AgentID: genAgentID(t)}
			for range rapid.IntRange(1, 5).Draw(t, "offers") {
				// A task of every kind, as an offer has it.
				task := genTask(t)
				m.Offers = append(m.Offers, TaskOffer{TaskID: task.ID, AuctionID: genID(t), TaskType: task.Type,
					RequiredCapabilities: task.Required,
					BidWindowMS:          rapid.IntRange(1, maxBidWindow).Draw(t, "window"), Attempt: rapid.IntRange(1, maxCount).
								Draw(t, "attempt"), Description: task.Description,
					Priority: task.Priority, Deadline: task.Deadline.Truncate(time.Microsecond),
					CorrelationID: trace.Draw(t, "trace")})
			}
			body, others := AppendTaskAvailable(nil, m.AgentID, m.Offers)
			if len(others) > 0 {
				t.Fatalf("%d offers are left", len(others))
			}
			got, refusal := d.DecodeControl(body)
			check(t, schemas.TaskAvailable, body, m, got, refusal)
		},
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, one) })
	}
}

// fits holds a body against its schema, as requireFits does, within a property.
func fits(t *rapid.T, set *schemas.Set, schema string, body []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, body)
	}
	if err := set.Validate(schema, value); err != nil || jsonkeys.Twice(body) {
		t.Fatalf("does not fit its schema: %v\n%s", err, body)
	}
}

// Whatever figures an agent's own code or a fleet without agents gives, the message
// can be read, and says the nearest that can be.
func TestFiguresOutOfRange(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct{ in, unit, seconds, capacity float64 }{
		{math.NaN(), 0, 0, 0},
		{math.Inf(1), 1, 1e9, 0}, // no rate: not told
		{math.Inf(-1), 0, 0, 0},
		{-0.5, 0, 0, 0},
		{1e-310, 0, 0, 0},
		{1e-12, 1e-12, 1e-12, 0},
		{1.5, 1, 1.5, 1.5},
		{1e300, 1, 1e9, 0},
	} {
		for _, n := range []int{math.MinInt, -1, math.MaxInt} {
			count := func(least, most int) int { return min(max(n, least), most) }
			id := "t-1"
			bid := &TaskBid{TaskID: "t-1", AuctionID: id, AgentID: "a-1", Fitness: c.in, ActiveTasks: n,
				EstimatedDurationSeconds: c.in, Relevance: c.in, HasRelevance: true}
			wantBid := *bid
			wantBid.Fitness, wantBid.ActiveTasks, wantBid.EstimatedDurationSeconds, wantBid.Relevance = c.unit,
				count(0, maxCount), c.seconds, c.unit
			if got, refusal := d.DecodeTaskBid(AppendTaskBid(nil, bid)); refusal != nil || !reflect.DeepEqual(*got, wantBid) {
				t.Errorf("%v, %d: bid %+v %+v, want %+v", c.in, n, got, refusal, wantBid)
			}
			claim := &TaskClaim{AgentID: "a-1", ClaimID: id, MaxItems: n, PendingItems: n, CapacityItemsPerSecond: c.in,
				WaitSeconds: c.in}
			wantClaim := TaskClaim{AgentID: "a-1", ClaimID: id, MaxItems: count(1, maxClaim), PendingItems: count(0, MaxPending),
				CapacityItemsPerSecond: c.capacity, WaitSeconds: min(c.seconds, maxWait)}
			if got, refusal := d.DecodeTaskClaim(AppendTaskClaim(nil, claim)); refusal != nil ||
				!reflect.DeepEqual(*got, wantClaim) {
				t.Errorf("%v, %d: claim %+v %+v, want %+v", c.in, n, got, refusal, wantClaim)
			}
			grant := &TaskGranted{AgentID: "a-1", ClaimID: id, Granted: n, Reason: "no\nwork " + strings.Repeat("ä", MaxText),
				Fleet: GrantFleet{n, n, n, c.in, c.in, n}}
			items := count(0, maxAmount)
			wantFleet := GrantFleet{count(0, maxCount), items, items, min(max(c.in, 0), maxAmount), c.seconds, items}
			if !(c.in >= leastAmount) {
				wantFleet.CapacityItemsPerSecond = 0
			}
			if got, refusal := d.DecodeTaskGranted(AppendTaskGranted(nil, grant)); refusal != nil || got.Fleet != wantFleet ||
				got.Granted != count(0, maxClaim) || got.Reason != Clean(grant.Reason, MaxText) {
				t.Errorf("%v, %d: grant %+v %+v, want %+v", c.in, n, got, refusal, wantFleet)
			}
			offer := TaskOffer{TaskID: "t-1", AuctionID: id, TaskType: "x", BidWindowMS: n, Attempt: n,
				Priority: coordinator.PriorityLow}
			body, _ := AppendTaskAvailable(nil, "a-1", []TaskOffer{offer})
			offer.BidWindowMS, offer.Attempt = count(1, maxBidWindow), count(1, maxCount)
			if got, refusal := d.DecodeTaskAvailable(body); refusal != nil || !reflect.DeepEqual(got.Offers[0], offer) {
				t.Errorf("%d: offer %+v %+v, want %+v", n, got, refusal, offer)
			}
		}
	}
}

// However many and however large the offers, every message can be read by an agent
// with the standard limits, and every offer is in one of them, in order.
func TestOffersAreSplit(t *testing.T) {
	d := newDecoder(t)
	small := func(i int) TaskOffer {
		return TaskOffer{TaskID: coordinator.TaskID(fmt.Sprint("t-", i)), AuctionID: "x", TaskType: "build", BidWindowMS: 500,
			Attempt: 1}
	}
	large := func(i int) TaskOffer {
		o := small(i)
		o.AuctionID, o.TaskType, o.CorrelationID = strings.Repeat("x", maxDispatchID), strings.Repeat("\U0001F600", maxName),
			strings.Repeat(`"`, maxTraceID)
		o.Description = strings.Repeat("\x01", maxDescription) // 6 bytes each
		for range maxCapabilities + 1 {
			o.RequiredCapabilities = append(o.RequiredCapabilities, strings.Repeat("\U0001F600", maxName))
		}
		return o
	}
	for _, c := range []struct {
		name     string
		n        int
		offer    func(int) TaskOffer
		messages int
	}{
		{"one", 1, small, 1},
		{"256", 256, small, 1},
		{"257", 257, small, 2},
		// 256 capabilities of 515 bytes, the comma included, 12,288 bytes of description
		// and some 1,300 of the rest are 145,400 bytes: the fourth begins below 524,288.
		{"nine of the largest", 9, large, 3},
	} {
		var offers []TaskOffer
		for i := range c.n {
			offers = append(offers, c.offer(i))
		}
		sent, next := 0, 0
		for rest := offers; len(rest) > 0; sent++ {
			var body []byte
			if body, rest = AppendTaskAvailable([]byte("kept"), "a-1", rest); string(body[:4]) != "kept" {
				t.Fatalf("%s: what was there is gone", c.name)
			}
			m, refusal := d.DecodeTaskAvailable(body[4:])
			if refusal != nil {
				t.Fatalf("%s: a message of %d bytes is refused: %s", c.name, len(body), refusal.Text)
			}
			for _, o := range m.Offers {
				if want := offers[next].TaskID; o.TaskID != want {
					t.Fatalf("%s: offer %d is of %s, want %s", c.name, next, o.TaskID, want)
				}
				next++
			}
		}
		if sent != c.messages || next != c.n {
			t.Errorf("%s: %d offers in %d messages, want %d in %d", c.name, next, sent, c.n, c.messages)
		}
	}
}

// A refusal of an offer names the agent: the task is one of many.
func TestRefusedOffer(t *testing.T) {
	body := strings.Replace(anAuction, `"attempt":1`, `"attempt":1,"deadline":"2026-02-30T00:00:00Z"`, 1)
	_, refusal := newDecoder(t).DecodeTaskAvailable([]byte(body))
	const want = "/offers/0/deadline: no such time between the years 1970 and 9999"
	if refusal == nil || refusal.Text != want || refusal.AgentID != "a-1" || refusal.MessageType != schemas.TaskAvailable {
		t.Errorf("refused with %+v, want %q", refusal, want)
	}
}

// The words for a bid that has not won are those of the schema.
func TestBidReasonsFit(t *testing.T) {
	set := compiled(t)
	for _, reason := range BidReasons() {
		requireFits(t, set, schemas.BidRejected,
			AppendBidRejected(nil, &BidRejected{TaskID: "t-1", AuctionID: "x", AgentID: "a-1", Reason: reason}))
	}
}

// What bidders are told of a task stays as its producer wrote it, to the character,
// however often the task comes back.
func TestDescriptionSurvives(t *testing.T) {
	d := newDecoder(t)
	for _, text := range []string{"", "one line", "two\nlines \"quoted\"", "\u2028 \U0001F600 \x7f\x01",
		strings.Repeat("\U0001F600", maxDescription)} {
		m := TaskAssign{TaskID: "t-1", TaskType: "build", Description: text}
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		read, refusal := d.DecodeTaskAssign(body)
		if refusal != nil {
			t.Fatalf("%.20q: %s", text, refusal.Text)
		}
		task := read.Task(Arrival{Now: at})
		for attempt := 1; attempt < 4; attempt++ {
			dispatch := &coordinator.Dispatch{Task: task, Agent: "a-1", Queue: "q", DispatchID: "d", Attempt: attempt,
				Timeout: time.Second, At: at}
			s := send(dispatch, "{}")
			seen, refusal := d.DecodeTaskDispatch(s.body)
			if refusal != nil || seen.Description != text {
				t.Fatalf("attempt %d: the agent reads %.20q (%+v), want %.20q", attempt, seen.Description, refusal, text)
			}
			back, refusal := s.decode(d)
			if refusal != nil || back.Task.Description != text {
				t.Fatalf("attempt %d: comes back as %.20q (%+v), want %.20q", attempt, back.Task.Description, refusal, text)
			}
			// The body has it. Once more in the header, the largest would not fit one frame.
			if text != "" && strings.Contains(s.task, "description") {
				t.Fatalf("the header says it once more: %.100s", s.task)
			}
			task = back.Task
		}
	}
	for _, body := range []string{assign(`"description":"` + strings.Repeat("x", maxDescription+1) + `"`),
		assign(`"description":["x"]`)} {
		if _, refusal := d.DecodeTaskAssign([]byte(body)); refusal == nil || refusal.Path != "/description" {
			t.Errorf("%.80s: refused by %+v, want a refusal at /description", body, refusal)
		}
	}
}

// offerFields are the fields of an offer, and what is none.
var offerFields = []string{"task_id", "auction_id", "task_type", "required_capabilities", "bid_window_ms", "attempt",
	"description", "priority", "deadline", "correlation_id", "x", "Attempt"}

func FuzzTaskAvailable(f *testing.F) {
	d := newDecoder(f)
	for _, body := range []string{anAuction, last(anAuction),
		strings.Replace(anAuction, aOffer, aOffer+","+withField(aOffer, "deadline", `"2030-01-01T00:00:00Z"`), 1),
		strings.Replace(anAuction, aOffer, withField(aOffer, "description", `"a\nb"`), 1),
		strings.Replace(anAuction, "[]", `["gpu","go"]`, 1), aCancel} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskAvailable(t, d, body) })
}

// checkTaskAvailable: what the fast path accepts the slow path accepts with an equal
// value.
func checkTaskAvailable(t tester, d *Decoder, body []byte) {
	t.Helper()
	fast, ok := d.fastTaskAvailable(body)
	slow, refusal := d.slowTaskAvailable(body)
	requireAgreement(t, body, fast, ok, slow, refusal)
}

func TestOrdinaryOffersTakeTheFastPath(t *testing.T) {
	d := newDecoder(t)
	offer := TaskOffer{TaskID: "t-1", AuctionID: "t-1.1", TaskType: "Speicher r\u00e4umen", BidWindowMS: 500, Attempt: 1,
		Priority:             coordinator.PriorityHigh,
		RequiredCapabilities: []string{"gpu", "go"}, Description: "in one line", Deadline: at, CorrelationID: "trace"}
	body, _ := AppendTaskAvailable(nil, "a-1",
		[]TaskOffer{offer, {TaskID: "t-2", AuctionID: "x", TaskType: "build", BidWindowMS: 100, Attempt: 2}})
	for _, body := range []string{string(body), anAuction, strings.Replace(anAuction, "{", "{ ", 1),
		withField(anAuction, "x", `[1]`)} {
		if _, ok := d.fastTaskAvailable([]byte(body)); !ok {
			t.Errorf("valid and plain, but not for the fast path: %s", body)
		}
	}
}
