package health

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

const start = int64(24 * time.Hour)

func refusal(after time.Duration) *coordinator.ProviderWord {
	return &coordinator.ProviderWord{Status: 429, RetryAfter: after}
}

// TestRefusals: what one refusal, or several, make of a pool that was well.
func TestRefusals(t *testing.T) {
	type said struct {
		at, begun time.Duration // since start
		after     time.Duration
		by        coordinator.AgentID
	}
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, c := range []struct {
		name     string
		said     []said
		closed   time.Duration // since start
		perMille int64
	}{
		{"without a time it is left alone for a second", []said{{}}, s, 700},
		{"twice as long with each that follows", []said{{}, {at: 2 * s, begun: s}, {at: 5 * s, begun: 4 * s}},
			9 * s, 343},
		{"a hundred together are one", []said{{}, {begun: -s}, {begun: -s}, {begun: -s}}, s, 700},
		{"a stated time holds", []said{{after: h}}, h, 700},
		{"for a day at most", []said{{after: 1000 * h}}, 24 * h, 700},
		{"one agent closes it for a minute", []said{{after: h, by: "x"}}, m, 700},
		{"and not again before it was open for as long",
			[]said{{after: h, by: "x"}, {at: 90 * s, begun: 80 * s, after: h, by: "x"}}, m, 500},
		{"a second agent does", []said{{after: h, by: "x"}, {at: 90 * s, begun: 80 * s, after: h, by: "y"}},
			150 * s, 490},
		{"a gateway counts in full", []said{{after: h, by: "x"}, {at: 90 * s, begun: 80 * s, after: h}}, 90*s + h, 490},
	} {
		t.Run(c.name, func(t *testing.T) {
			var st State
			for _, x := range c.said {
				st.Answer(start+int64(x.at), start+int64(x.begun), refusal(x.after), x.by)
			}
			if closed := time.Duration(st.Blocked() - start); closed != c.closed || st.Share() != c.perMille {
				t.Errorf("closed until %v with %d per mille, want %v with %d", closed, st.Share(), c.closed, c.perMille)
			}
		})
	}
}

// TestRises: a pool that was cut gets 5 % of its rates a minute, whether it is asked each minute or once.
func TestRises(t *testing.T) {
	for minutes, want := range []int64{700, 750, 800, 850, 900, 950, Whole, Whole} {
		var st State
		st.Answer(start, start, refusal(0), "")
		now := start + int64(minutes)*int64(riseEvery)
		if st.Rise(now); st.Share() != want || (st.Rises() == 0) != (want == Whole) {
			t.Errorf("after %d minutes %d per mille, rises at %d; want %d", minutes, st.Share(), st.Rises(), want)
		}
		if (st.Rises() == 0) != st.over(now) {
			t.Errorf("after %d minutes over is %v", minutes, st.over(now))
		}
	}
}

// TestOnlyTakesOnceAMinute: what an agent alone says is left of the rates counts once a minute, what a second one or a
// gateway says at once.
func TestOnlyTakesOnceAMinute(t *testing.T) {
	var st State
	if !st.MayTake(start, "x") {
		t.Fatal("the first report must count")
	}
	st.Took(start, "x")
	for _, c := range []struct {
		by    coordinator.AgentID
		after time.Duration
		may   bool
	}{{"x", time.Second, false}, {"y", time.Second, true}, {"", time.Second, true}, {"x", ownTakes, true}} {
		if got := st.MayTake(start+int64(c.after), c.by); got != c.may {
			t.Errorf("by %q after %v: %v", c.by, c.after, got)
		}
	}
}

// draw has anything be answered and observed; it returns the time then.
func draw(t *rapid.T, st *State) (now int64) {
	now = start
	for range rapid.IntRange(1, 20).Draw(t, "steps") {
		now += rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "later")
		st.Rise(now)
		by := rapid.SampledFrom([]coordinator.AgentID{"", "x", "y"}).Draw(t, "by")
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			after := time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "after"))
			if rapid.Bool().Draw(t, "says nothing") {
				after = 0
			}
			st.Answer(now, now-rapid.Int64Range(0, int64(time.Minute)).Draw(t, "took"), refusal(after), by)
		case 1:
			st.Answer(now, now, &coordinator.ProviderWord{Status: 200}, by)
		case 2:
			st.Took(now, by)
		default:
			st.Observe(rapid.Bool().Draw(t, "failed"), time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "latency")), by)
		}
	}
	return now
}

// TestRecordsGiveTheSame: of a state that comes from its record in a snapshot nothing can be told from the one that
// it is of, then and when all of it has had time to rise.
func TestRecordsGiveTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var st, heir State
		now := draw(t, &st)
		heir.Fold(now, st.Before("p", now))
		var k, unread Kept
		k.Keep(now, "p", st)
		unread.Fold(now, st.Before("p", now))
		for _, later := range []time.Duration{0, 90 * time.Second, 5 * time.Minute, 30 * time.Minute} {
			at := now + int64(later)
			st.Rise(at)
			heir.Rise(at)
			if a, b := st.View(at), heir.View(at); a != b || st.Well(at) != heir.Well(at) {
				t.Fatalf("after %v %+v, from its record %+v", later, a, b)
			}
			if a, b := st.Before("p", at), heir.Before("p", at); !reflect.DeepEqual(a, b) {
				t.Fatalf("after %v %+v, from its record %+v", later, a, b)
			}
			a, b := k.Records(at), unread.Records(at)
			if !reflect.DeepEqual(a, b) || (len(a) == 0) != st.over(at) {
				t.Fatalf("after %v %+v is kept, from its record %+v; over %v", later, a, b, st.over(at))
			}
			if len(a) > 0 && !reflect.DeepEqual(a[0], coordinator.Record(st.Before("p", at))) {
				t.Fatalf("after %v %+v is kept, want %+v", later, a[0], st.Before("p", at))
			}
		}
	})
}

// TestOneAgentAlone: whatever one agent reports, it does not close a pool for longer than a minute, nor cut it below
// half of its rates.
func TestOneAgentAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var st State
		now := start
		for range rapid.IntRange(1, 40).Draw(t, "reports") {
			now += rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later")
			st.Rise(now)
			st.Answer(now, now, refusal(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "after"))), "x")
			if st.Blocked() > now+int64(ownBlock) || st.Share() < ownCutLeast {
				t.Fatalf("closed for %v, %d per mille", time.Duration(st.Blocked()-now), st.Share())
			}
		}
	})
}

// TestKept: those that are listed again are given back, the others stay; a later state takes the place of an earlier.
func TestKept(t *testing.T) {
	var k Kept
	var short, long State
	short.Answer(start, start, refusal(time.Minute), "")
	long.Answer(start, start, refusal(time.Hour), "")
	for _, x := range []struct {
		node string
		s    State
	}{{"a", short}, {"b", short}, {"a", long}, {"c", State{}}} {
		k.Keep(start, x.node, x.s)
	}
	if k.Len() != 2 {
		t.Fatalf("%d are kept, want a and b", k.Len())
	}
	var given []string
	k.Resume(start+int64(10*time.Minute), func(node string, s State) bool {
		if given = append(given, node); s.Share() != Whole || s.Blocked() != start+int64(time.Hour) {
			t.Errorf("%s: %+v", node, s)
		}
		return true
	})
	if !reflect.DeepEqual(given, []string{"a"}) || k.Len() != 0 {
		t.Errorf("given back %v, %d stay; b is over", given, k.Len())
	}
}
