package coordinator

import (
	"math"
	"strconv"
	"time"

	"taskbus/coordinator/hash"
)

// CallOp is the operation of a request about one LLM call outside of tasks.
type CallOp uint8

// The operations. The numbers are part of recordings and never change.
const (
	// CallReserve sets quota aside until the call's end is reported, or its time is over.
	CallReserve CallOp = 0
	// CallExtend sets more aside, or for longer.
	CallExtend CallOp = 1
	// CallSettle reports what was used, CallRelease that nothing was.
	CallSettle  CallOp = 2
	CallRelease CallOp = 3
	// CallCheck asks whether a call would be admitted now. Nothing changes.
	CallCheck CallOp = 4
	// CallConsume is CallReserve and CallSettle in one.
	CallConsume CallOp = 5
	// CallCharge reports a call that has been made already: it is charged whatever the limits.
	CallCharge CallOp = 6

	NumCallOps = 7
)

// String is the word used in metrics, and the name of the endpoint.
func (o CallOp) String() string {
	return [NumCallOps]string{"reserve", "extend", "settle", "release", "check", "consume", "charge"}[o]
}

// Call is a request about an LLM call, or several together, that belongs to no task. It is immutable.
type Call struct {
	Op CallOp `rec:"1"`
	// Key of the reservation, made of its agent's name and of the id that it was given.
	Key TaskKey `rec:"2"`
	// Keep: its end is remembered for a while, because the caller may report it again.
	Keep bool `rec:"12"`
	// Agent that makes it; empty: no particular agent. Group that is charged; empty: the agent's.
	Agent AgentID `rec:"3"`
	Group string  `rec:"4,name"`
	// OwnOnly: the request was made with Agent's own token. The group and the reservation must be the
	// agent's.
	OwnOnly bool `rec:"5"`
	// Admitted, of CallCharge, and of CallSettle of the same: a coordinator has admitted it by itself,
	// because it could ask no leader. It has seen to it that the agent may use the group, and judged what
	// that says of itself (OwnOnly): it is charged as it was answered.
	Admitted bool `rec:"13"`
	// Operation by which prices and estimates may differ, as the type of a task; may be empty.
	Operation string `rec:"6,name"`
	// Usage that is expected (CallExtend: besides; CallSettle: that there was), and how it is meant.
	Usage Usage      `rec:"7"`
	Meant UsageMeant `rec:"8"`
	// Seats, at least 0, that it takes while it runs.
	Seats       int64 `rec:"9"`
	NoBorrowing bool  `rec:"14"`
	// Priority decides for which waiting tasks it stands back.
	Priority Priority `rec:"10"`
	// TTL is how long the reservation stands; 0: as long as quotas.yaml says. Of CallExtend from
	// now on, 0: as before.
	TTL time.Duration `rec:"11"`
	// Routes are the models that it may go to, in the order of preference, instead of the one that
	// Usage names; empty: only that one.
	Routes []Service `rec:"15"`
	// Heard is what the provider has answered, with CallSettle and CallRelease; nil: not reported.
	Heard *ProviderWord `rec:"16"`
	// Asked is a hash of what is asked for under an id of the caller's (see HashAsked), so that the id does not
	// stand for another call as well; 0: not known.
	Asked uint64 `rec:"17,hash"`
	// ChargeUntold: if the end of the call is never reported, it is charged as reserved, and not given back.
	ChargeUntold bool `rec:"18"`
}

// UsageMeant is how what is stated of a call's usage is meant.
type UsageMeant uint8

// The ways in which it may be.
const (
	// UsageEstimated: what is left out is estimated.
	UsageEstimated UsageMeant = iota
	// UsageExact: what is left out is none, but for the one request.
	UsageExact
	// UsagePart: it is no request of its own, but a part of one that has been counted already. What is
	// stated is charged and nothing else, and nothing is learnt from it.
	UsagePart
	// UsageOutput, of CallSettle: the tokens of the output are known alone, and those of the input are
	// charged as reserved. UsageInput: the other way round. Nothing is learnt from what is half known.
	UsageOutput
	UsageInput
)

// Told is the usage that a settlement reports, of a call for which so many tokens of input and output were
// reserved; false: it reports none, and all is charged as reserved.
func (c *Call) Told(input, output float64) (Usage, bool) {
	u := c.Usage
	switch c.Meant {
	case UsageExact:
	case UsageOutput:
		u.InputTokens = input
	case UsageInput:
		u.OutputTokens = output
	default:
		return u, false
	}
	return u, true
}

// HashAsked is a hash of what the call asks for, whatever its key, Op, priority and time: of all that
// decides what is charged, and to which nodes. It is never 0.
func (c *Call) HashAsked() uint64 {
	b := make([]byte, 0, 256)
	text := func(s string) { b = append(strconv.AppendInt(b, int64(len(s)), 10), ':'); b = append(b, s...) }
	number := func(x float64) { b = append(strconv.AppendUint(b, math.Float64bits(x), 16), ' ') }
	text(c.Group)
	text(c.Operation)
	text(c.Usage.Provider)
	text(c.Usage.Model)
	for _, x := range [...]float64{c.Usage.Requests, c.Usage.InputTokens, c.Usage.OutputTokens, c.Usage.CostUSD,
		float64(c.Meant), float64(c.Seats)} {
		number(x)
	}
	b = strconv.AppendBool(strconv.AppendBool(b, c.NoBorrowing), c.ChargeUntold)
	for _, r := range c.Routes {
		text(r.Provider)
		text(r.Model)
	}
	return max(1, hash.Of(string(b), 0))
}

// CallAsked asks about calls, all of them or none: if one is refused nothing is set aside for
// any. CallAnswered follows.
type CallAsked struct {
	Token uint64 `rec:"1"`
	Calls []Call `rec:"2"`
}

// CallState is what has become of what was asked about a call.
type CallState uint8

// The states.
const (
	// CallGranted: it is done.
	CallGranted CallState = iota
	// CallRefused: a limit has no room for it; CallNever: nor will it ever have.
	CallRefused
	CallNever
	// CallUnknown: there is no such reservation (any more).
	CallUnknown
	// CallEnded: the reservation had ended before, and nothing has changed.
	CallEnded
	// CallForeign: the group is not the agent's.
	CallForeign
	// CallPutBy: there is room for it, but not for another one that was asked about with it.
	CallPutBy
	// CallTaken: its key stands for a reservation that it is not, of another sort or for something else:
	// nothing has changed.
	CallTaken
	// CallDoubted: its agent, speaking for itself, says that it has used more than it can be
	// believed; Lacks says how much that is. Nothing has changed.
	CallDoubted
	// CallUnlisted: its group, or its agent where it names no group, is none that quotas.yaml lists; Lacks
	// says which.
	CallUnlisted
	NumCallStates = iota
)

// String is the word used in metrics.
func (s CallState) String() string {
	return [NumCallStates]string{"granted", "refused", "never", "unknown", "ended", "foreign", "put_by", "taken",
		"doubted", "unlisted"}[s]
}

// CallAnswer is the answer about one call.
type CallAnswer struct {
	State CallState
	// Own: a coordinator has admitted it by itself, because it could ask no leader.
	Own bool
	// Standing: the reservation was there already, as it is answered.
	Standing bool
	// Agent, Group, Provider and Model that it is charged to, as far as they are known, and the
	// node of the provider or model.
	Agent           AgentID
	Group           string
	Provider, Model string
	Pool            string
	// Amounts set aside, or charged.
	Amounts Amounts
	// Until when it stands; zero: it does not, or nothing is set aside because no quota concerns it.
	Until time.Time
	// Borrowed: some of it comes from shares that others leave unused.
	Borrowed bool
	// Lacks is why it is refused; nil: it is not.
	Lacks *QuotaLack
	// Routes are the models that it might have gone to, if there were several, in the order in which
	// they were asked for.
	Routes []RouteScore
	// Limits are what is left of limits that concern it: first of the one that refuses it, then, of the
	// others, of the budget and the rate of which the smallest part is left, the smaller part first.
	Limits []QuotaLeft
}

// QuotaLeft is what is left of one limit.
type QuotaLeft struct {
	Node      string
	Dimension Dimension
	Limit     string // budget, rate, seats, or provider: what that has said itself
	// Quota for every Window, of which Left may be used until it is whole again after Reset. Seats have
	// no window, and come back when something ends.
	Quota, Left   int64
	Window, Reset time.Duration
	// Most is how much may be left at one time: a rate's burst, all of a budget.
	Most int64
}

// CallAnswered answers CallAsked.
type CallAnswered struct {
	Token   uint64
	Answers []CallAnswer
	// Changed: the answers follow from what has just been journalled.
	Changed bool
}
