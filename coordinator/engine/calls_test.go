package engine_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// callRig asks about calls.
type callRig struct{ *rig }

func calls(t *testing.T, yaml string) callRig {
	return callRig{ready(t, policyOf(worker("a").slots(10)).under(t, yaml))}
}

func callOf(op coordinator.CallOp, id string) *coordinator.Call {
	return &coordinator.Call{Op: op, Key: coordinator.KeyOf(coordinator.TaskID("call:" + id)), Keep: true, Agent: "x",
		Priority: coordinator.PriorityNormal}
}

// tokens is a call of which it is known what it takes.
func tokens(op coordinator.CallOp, id string, in, out float64) *coordinator.Call {
	c := callOf(op, id)
	c.Usage, c.Meant = coordinator.Usage{InputTokens: in, OutputTokens: out}, coordinator.UsageExact
	return c
}

// ask gives the answers.
func (r callRig) ask(calls ...*coordinator.Call) []coordinator.CallAnswer {
	r.t.Helper()
	ev := coordinator.CallAsked{Token: 1}
	for _, c := range calls {
		ev.Calls = append(ev.Calls, *c)
	}
	for _, f := range r.Apply(r.now, ev, nil) {
		if a, is := f.(*coordinator.CallAnswered); is {
			return a.Answers
		}
	}
	r.t.Fatal("no answer")
	return nil
}

// state asks about one call and checks what becomes of it.
func (r callRig) state(c *coordinator.Call, want coordinator.CallState) coordinator.CallAnswer {
	r.t.Helper()
	a := r.ask(c)[0]
	if a.State != want {
		r.t.Errorf("operation %d: state %d, want %d: %+v", c.Op, a.State, want, a)
	}
	return a
}

const oneTeam = `
groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}, concurrency: {amount: 2}}}]
agents: [{id: x, group_id: team}, {id: y, group_id: team}]
reservation_ttl_seconds: 60
`

// What a settlement does not tell of the tokens is charged as it was reserved, and nothing is learnt
// from such a half: 100 and 200 tokens were reserved.
func TestSettledByHalf(t *testing.T) {
	for _, tc := range []struct {
		name    string
		meant   coordinator.UsageMeant
		in, out float64
		want    [2]int64 // input and output charged
		learnt  bool
	}{
		{"both are told", coordinator.UsageExact, 70, 30, [2]int64{70, 30}, true},
		{"output alone: the input is not free", coordinator.UsageOutput, 0, 30, [2]int64{100, 30}, false},
		{"input alone", coordinator.UsageInput, 70, 0, [2]int64{70, 200}, false},
		{"nothing", coordinator.UsageEstimated, 0, 0, [2]int64{100, 200}, false},
	} {
		r := calls(t, oneTeam)
		r.Record(true)
		r.state(tokens(coordinator.CallReserve, "1", 100, 200), coordinator.CallGranted)
		end := tokens(coordinator.CallSettle, "1", tc.in, tc.out)
		end.Meant = tc.meant
		a := r.state(end, coordinator.CallGranted)
		if got := [2]int64{a.Amounts[coordinator.DimInputTokens], a.Amounts[coordinator.DimOutputTokens]}; got != tc.want {
			t.Errorf("%s: %v is charged, want %v", tc.name, got, tc.want)
		}
		r.holds(teamAgent, coordinator.DimTotalTokens, tc.want[0]+tc.want[1], 0)
		learnt := false
		for _, one := range r.Records(nil) {
			if ended, is := one.(*coordinator.QuotaEnded); is {
				learnt = ended.Type != ""
			}
		}
		if learnt != tc.learnt {
			t.Errorf("%s: learnt from: %t, want %t", tc.name, learnt, tc.learnt)
		}
	}
}

// team is the agent's own part: half of the team's 1,000 tokens, of which it borrows what the other
// one has accrued; the tests begin at noon, when that is half of its own.
const teamAgent = "pool/team/x"

// A call's quota is set aside, extended, and settled at what it has used; told twice it changes
// nothing.
func TestCallIsReservedExtendedAndSettled(t *testing.T) {
	r := calls(t, oneTeam)
	a := r.state(tokens(coordinator.CallReserve, "1", 100, 200), coordinator.CallGranted)
	if a.Group != "team" || !a.Until.Equal(r.now.Add(time.Minute)) || a.Amounts[coordinator.DimTotalTokens] != 300 {
		t.Errorf("%+v", a)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 0, 300)
	more := tokens(coordinator.CallExtend, "1", 0, 50)
	more.TTL = 5 * time.Minute
	if a := r.state(more, coordinator.CallGranted); !a.Until.Equal(r.now.Add(5*time.Minute)) ||
		a.Amounts[coordinator.DimTotalTokens] != 350 {
		t.Errorf("%+v", a)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 0, 350)
	r.state(tokens(coordinator.CallSettle, "1", 100, 220), coordinator.CallGranted)
	r.holds(teamAgent, coordinator.DimTotalTokens, 320, 0)
	r.state(tokens(coordinator.CallSettle, "1", 5, 5), coordinator.CallEnded)
	r.state(tokens(coordinator.CallReserve, "1", 5, 5), coordinator.CallEnded)
	r.state(callOf(coordinator.CallRelease, "1"), coordinator.CallEnded)
	r.state(more, coordinator.CallEnded)
	r.holds(teamAgent, coordinator.DimTotalTokens, 320, 0)
	r.state(tokens(coordinator.CallSettle, "never made", 5, 5), coordinator.CallUnknown)
	r.pass(time.Minute + time.Second) // it is remembered for a minute
	r.state(tokens(coordinator.CallSettle, "1", 5, 5), coordinator.CallUnknown)
}

// Asked again under the same key, a reservation that stands is answered and not made again.
func TestCallIsReservedOnce(t *testing.T) {
	r := calls(t, oneTeam)
	r.state(tokens(coordinator.CallReserve, "1", 100, 200), coordinator.CallGranted)
	r.now = r.now.Add(time.Second)
	if a := r.state(tokens(coordinator.CallReserve, "1", 1, 1), coordinator.CallGranted); !a.Standing ||
		a.Amounts[coordinator.DimTotalTokens] != 300 || !a.Until.Equal(r.now.Add(59*time.Second)) {
		t.Errorf("%+v", a)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 0, 300)
	r.state(tokens(coordinator.CallConsume, "2", 10, 20), coordinator.CallGranted)
	if a := r.state(tokens(coordinator.CallConsume, "2", 10, 20), coordinator.CallGranted); !a.Standing {
		t.Errorf("consumed twice: %+v", a)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 30, 300)
}

// A refusal says which limit it was, and when to ask again; a check changes nothing, nor does a
// refusal.
func TestCallIsRefused(t *testing.T) {
	r := calls(t, oneTeam)
	r.state(tokens(coordinator.CallConsume, "1", 400, 90), coordinator.CallGranted)
	before := r.books()
	// 10 are left of x's own, 250 have accrued to y
	a := r.state(tokens(coordinator.CallReserve, "2", 300, 100), coordinator.CallRefused)
	if a.Lacks == nil || a.Lacks.Dimension != coordinator.DimTotalTokens || a.Lacks.RetryAt.IsZero() || !a.Until.IsZero() {
		t.Errorf("%+v", a.Lacks)
	}
	own := tokens(coordinator.CallReserve, "3", 10, 1)
	own.NoBorrowing = true
	r.state(own, coordinator.CallRefused) // 11 of 10
	r.state(tokens(coordinator.CallCheck, "4", 10, 0), coordinator.CallGranted)
	r.state(tokens(coordinator.CallReserve, "5", 1000, 1), coordinator.CallNever)
	if got := r.books(); len(got) != len(before) {
		t.Errorf("%v, and before %v", got, before)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 490, 0)
}

// Seats are taken for as long as a call runs, and not by what is consumed at once.
func TestCallTakesASeat(t *testing.T) {
	r := calls(t, oneTeam)
	seat := func(id string) *coordinator.Call {
		c := tokens(coordinator.CallReserve, id, 1, 1)
		c.Seats = 1
		return c
	}
	r.state(seat("1"), coordinator.CallGranted)
	r.state(seat("2"), coordinator.CallGranted)
	if a := r.state(seat("3"), coordinator.CallRefused); a.Lacks.Limit != "seats" {
		t.Errorf("%+v", a.Lacks)
	}
	r.state(tokens(coordinator.CallConsume, "4", 1, 1), coordinator.CallGranted)
	r.state(callOf(coordinator.CallRelease, "1"), coordinator.CallGranted)
	r.state(seat("3"), coordinator.CallGranted)
}

// A reservation that is not settled is given back when its time is over, and charged all the same
// should it be settled after that; one that is to be charged untold is.
func TestCallExpires(t *testing.T) {
	r := calls(t, oneTeam)
	r.state(tokens(coordinator.CallReserve, "1", 100, 100), coordinator.CallGranted)
	sure := tokens(coordinator.CallReserve, "2", 30, 40)
	sure.ChargeUntold = true
	r.state(sure, coordinator.CallGranted)
	r.pass(59 * time.Second)
	r.holds(teamAgent, coordinator.DimTotalTokens, 0, 270)
	r.pass(time.Second)
	r.holds(teamAgent, coordinator.DimTotalTokens, 70, 0)
	r.Record(true)
	begun := r.now.Add(-time.Minute)
	r.state(tokens(coordinator.CallSettle, "1", 100, 10), coordinator.CallGranted) // late: the journal says whose it was
	want := &coordinator.QuotaOwner{Group: "team", Agent: "x", Call: true, At: begun}
	if recs := r.Records(nil); len(recs) != 1 || !reflect.DeepEqual(recs[0].(*coordinator.QuotaEnded).Late, want) {
		t.Errorf("it records %+v, want one that was %+v", recs, want)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 180, 0)
	r.state(tokens(coordinator.CallSettle, "2", 100, 10), coordinator.CallEnded)
	r.holds(teamAgent, coordinator.DimTotalTokens, 180, 0)
}

// What has been used already is charged whatever the limits.
func TestCallIsChargedAfterTheFact(t *testing.T) {
	r := calls(t, oneTeam)
	r.state(tokens(coordinator.CallCharge, "1", 2000, 500), coordinator.CallGranted)
	r.holds("pool/team", coordinator.DimTotalTokens, 2500, 0)
	r.state(tokens(coordinator.CallReserve, "2", 1, 0), coordinator.CallRefused)
}

// Of several calls that are asked about together all are granted, or nothing is set aside for any.
func TestCallsAreAllGrantedOrNone(t *testing.T) {
	r := calls(t, oneTeam)
	answers := r.ask(tokens(coordinator.CallConsume, "1", 100, 0), tokens(coordinator.CallConsume, "2", 990, 0),
		tokens(coordinator.CallConsume, "3", 50, 0))
	if answers[0].State != coordinator.CallPutBy || answers[1].State != coordinator.CallRefused ||
		answers[2].State != coordinator.CallPutBy {
		t.Errorf("%+v", answers)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 0, 0)
	answers = r.ask(tokens(coordinator.CallConsume, "1", 100, 0), tokens(coordinator.CallReserve, "3", 50, 0))
	if answers[0].State != coordinator.CallGranted || answers[1].State != coordinator.CallGranted {
		t.Errorf("%+v", answers)
	}
	r.holds(teamAgent, coordinator.DimTotalTokens, 100, 50)
}

// An agent that speaks for itself has its own group's quota and no other's; a gateway may
// name any.
func TestCallOfAnotherGroupIsForeign(t *testing.T) {
	r := calls(t, `
groups: [{id: team, limits: {requests: {amount: 9, per: day}}}, {id: rich, limits: {requests: {amount: 99, per: day}}}]
agents: [{id: x, group_id: team}]
`)
	c := tokens(coordinator.CallReserve, "1", 1, 1)
	c.OwnOnly, c.Group = true, "rich"
	r.state(c, coordinator.CallForeign)
	c.Agent, c.Group = "unlisted", "rich"
	r.state(c, coordinator.CallUnlisted)
	c.Group = ""
	r.state(c, coordinator.CallUnlisted)
	c.OwnOnly, c.Group, c.Key = false, "rich", coordinator.KeyOf("call:2")
	if a := r.state(c, coordinator.CallGranted); a.Group != "rich" {
		t.Errorf("%+v", a)
	}
	r.holds("pool/rich", coordinator.DimRequests, 0, 1)
}

// Where a task of its group waits for a rate, a call stands back behind it, though there is enough
// for it: else calls, which come one by one, would keep a large task waiting for ever.
func TestCallStandsBackBehindTasks(t *testing.T) {
	r := calls(t, `groups: [{id: team, limits: {total_tokens: {rate: 10, per: second, burst: 1000, borrow: 0}}}]`)
	r.give(job("t1").of("team").tokens(900, 50)) // 50 are left
	want(t, r.assign(job("t2").of("team").tokens(300, 0)))
	small := tokens(coordinator.CallConsume, "1", 10, 0)
	small.Group = "team"
	if a := r.state(small, coordinator.CallRefused); a.Lacks.RetryAt.IsZero() {
		t.Errorf("%+v", a.Lacks)
	}
	// An explanation says that it is not for want of quota.
	a, _ := r.Quotas(r.now).Explain(&engine.QuotaQuestion{Group: "team",
		Usage: coordinator.Usage{InputTokens: 10, OutputTokens: 1}, Routes: []coordinator.Service{{Provider: "any"}}})
	if a.Explanation.Verdict.OK || !strings.HasSuffix(a.Lack, "; tasks wait for it, and go first") ||
		a.Explanation.Limits[0].Refuses || a.Routes[0].Lacks == nil {
		t.Errorf("explained as %q: %+v", a.Lack, a)
	}
	small.Priority = coordinator.PriorityHigh
	r.state(small, coordinator.CallGranted)
}

// What a call gives back goes to the task that waits for it, in the same moment.
func TestCallGivesWayToTasks(t *testing.T) {
	r := calls(t, `groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}}}]`)
	held := tokens(coordinator.CallReserve, "1", 900, 0)
	held.Group = "team"
	r.state(held, coordinator.CallGranted)
	want(t, r.assign(job("t1").of("team").tokens(150, 10)))
	ev := coordinator.CallAsked{Calls: []coordinator.Call{*tokens(coordinator.CallSettle, "1", 800, 0)}}
	want(t, r.apply(ev), "calls granted", "dispatch t1.1 a") // 800 + 160
}

// Calls have no turn: what they use does not put their group behind others.
func TestCallsHaveNoTurn(t *testing.T) {
	r := calls(t, `groups: [{id: team, limits: {requests: {amount: 99, per: day}}}, {id: other-team}]`)
	r.give(job("t1").of("team").tokens(10, 10))
	before := r.Shares().Export()
	c := tokens(coordinator.CallConsume, "1", 5000, 5000)
	c.Group = "team"
	r.state(c, coordinator.CallGranted)
	if after := r.Shares().Export(); !reflect.DeepEqual(after, before) {
		t.Errorf("%+v, before %+v", after, before)
	}
}
