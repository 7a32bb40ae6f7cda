package coordinator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxCandidates is how many scored candidates a decision keeps, best first; an explanation made on request
// has up to MaxExplained, and as many refusals.
const (
	MaxCandidates = 3
	MaxExplained  = 200
	// MaxNamed is how many refused agents a choice names.
	MaxNamed = 8
)

// Candidate is one agent as a strategy saw it.
type Candidate struct {
	Agent AgentID
	Load  float64
	Free  int
	Key   Key
	// Terms are those that Decision.Terms names.
	Terms TermValues
}

// Refusal is one agent that may not have the task, and why.
type Refusal struct {
	Agent AgentID
	Why   Ineligibility
	// FreeIn is when a slot of a full agent is expected to be free; 0 when that is
	// not known or not what keeps the task from it.
	FreeIn time.Duration
}

// MissingCapability counts the agents that lack one required capability.
type MissingCapability struct {
	Capability string
	Agents     int
}

// Decision is which agent gets a task, with the explanation.
type Decision struct {
	Strategy string
	// Terms name the elements of every candidate's Terms.
	Terms []string
	// Scored says that minus Key.First is the score of a candidate.
	Scored bool
	// Explored: success rates were drawn from their estimated distribution, so that agents with few results
	// get work too.
	Explored bool
	// Agent chosen; empty when refused.
	Agent AgentID
	// Preferred: chosen from the preferred agents, before all others.
	Preferred bool
	// Auction is how the agents' own bids took part in a choice; AuctionNone where the
	// strategy asks for none.
	Auction AuctionOutcome
	// First: the first eligible agent was chosen, without comparing scores.
	First bool
	// Offers is how many agents it would be offered to before, and Window for how long at most. Filled only
	// for explanations; 0 where it would not be offered.
	Offers int
	Window time.Duration
	// Lacks is the quota that it would wait for, or waits for; nil: none. Agent is then the one that it
	// would go to if there were enough. Filled only for explanations.
	Lacks *QuotaLack
	// Models are how those were judged that the task may go to, for one that lacks quota those of the
	// first of its group, behind which it waits; nil: it has no choice, or there are no quotas.
	Models *RouteChoice
	// Fleet is how many agents are known, Eligible how many could have had it: the bidders, where a bid was
	// chosen.
	Fleet, Eligible int
	// Candidates are the best of the eligible, best first (at most MaxCandidates, or MaxExplained for
	// explanations).
	Candidates []Candidate
	// Refused counts the ineligible agents by cause, but in the choice of a bidder, or of an agent
	// that was the only one in question. A choice counts those without a score as eligible: not
	// all have been looked at.
	Refused [NumIneligibilities]int
	// WithoutQuota are the others that a choice left out: quota of their own that would be
	// needed for the task is used up.
	WithoutQuota int
	// Claiming is how many of those refused as Pulling wait for an answer to a claim.
	Claiming int
	// UnscoredWhy is why the first of those without a score has none.
	UnscoredWhy string
	// Missing says which capabilities are lacking, most often lacking first.
	Missing []MissingCapability
	// Nearest is the refused agent that came closest; nil when no agent has the
	// capabilities.
	Nearest *Refusal
	// Refusals are the agents that may not have it, the nearest first: for explanations at most
	// MaxExplained. A choice has all of them if they are at most MaxNamed, else those that the task may be
	// given to at another time if these are.
	Refusals []Refusal
}

// Text renders a refusal for people: "0 of 12 agents eligible: 7 lack `gpu`, 5 full; nearest: agent-7
// (full)". For a choice it names the agent and the number of candidates; for one that has to wait for
// quota, which quota, and until when.
func (d *Decision) Text() string {
	switch {
	case d.Lacks == nil:
		return d.choice()
	case d.Agent == "":
		return d.choice() + "; it waits for quota, too: " + d.Lacks.Text
	case d.Offers > 0:
		return "would be offered once its quota allows: " + d.Lacks.Text + " (" + d.choice() + ")"
	default:
		return "would go to " + string(d.Agent) + " once its quota allows: " + d.Lacks.Text + " (" + d.choice() + ")"
	}
}

// choice is the decision as far as agents are concerned.
func (d *Decision) choice() string {
	var b strings.Builder
	if d.Agent != "" {
		if d.Offers > 0 {
			fmt.Fprintf(&b, "offered first (to %d), for at most %v; if no agent bids: ", d.Offers,
				d.Window.Round(time.Millisecond))
		}
		return string(d.AppendChoice([]byte(b.String())))
	}
	if d.Fleet == 0 {
		return "no agents are configured"
	}
	fmt.Fprintf(&b, "%d of %d agents eligible", d.Eligible, d.Fleet)
	sep := ": "
	part := func(format string, args ...any) {
		b.WriteString(sep)
		fmt.Fprintf(&b, format, args...)
		sep = ", "
	}
	for why := Eligible + 1; why < NumIneligibilities; why++ {
		switch n, phrase := d.Refused[why], ineligibilities[why].phrase; {
		case n == 0:
		case why == Unscored && d.UnscoredWhy != "":
			part("%d %s (%s)", n, phrase, d.UnscoredWhy)
		case why == Pulling && d.Claiming > 0:
			part("%d %s (%d wait for one now)", n, phrase, d.Claiming)
		case why == LacksCapability && len(d.Missing) > 0:
			names := make([]string, 0, len(d.Missing))
			for _, m := range d.Missing[:min(len(d.Missing), MaxCandidates)] {
				names = append(names, "`"+m.Capability+"`")
			}
			if len(d.Missing) > MaxCandidates {
				names = append(names, "…")
			}
			part("%d lack %s", n, strings.Join(names, " or "))
		default:
			part("%d %s", n, phrase)
		}
	}
	if d.Nearest != nil {
		fmt.Fprintf(&b, "; nearest: %s (%s)", d.Nearest.Agent, d.Nearest.phrase())
	}
	return b.String()
}

// AppendChoice appends the agent, the strategy, and among how many it was chosen.
func (d *Decision) AppendChoice(dst []byte) []byte {
	place, of := ", best of ", " eligible among "
	if d.First {
		place = ", first of "
	}
	if d.Auction == AuctionAwarded {
		of = " bidders among "
	}
	dst = append(append(append(dst, d.Agent...), " by "...), d.Strategy...)
	dst = strconv.AppendInt(append(dst, place...), int64(d.Eligible), 10)
	dst = append(strconv.AppendInt(append(dst, of...), int64(d.Fleet), 10), " agents"...)
	if d.Preferred {
		dst = append(dst, " (preferred)"...)
	}
	if why := d.Auction.withoutBid(); why != "" {
		dst = append(append(dst, "; "...), why...)
	}
	return dst
}

// phrase says why: "full", or "full, free in about 40 s".
func (r *Refusal) phrase() string {
	why := ineligibilities[r.Why].phrase
	if r.FreeIn <= 0 {
		return why
	}
	return why + ", free in about " + Roughly(r.FreeIn)
}

// Roughly rounds a time for people to what an estimate is worth: seconds (at least one) below
// a minute, tens of seconds below ten minutes, minutes below three hours, hours below three days, days beyond.
func Roughly(d time.Duration) string {
	const day = 24 * time.Hour
	step, unit, name := day, day, " days"
	switch d = max(d, time.Second); {
	case d < time.Minute:
		step, unit, name = time.Second, time.Second, " s"
	case d < 10*time.Minute:
		step, unit, name = 10*time.Second, time.Second, " s"
	case d < 3*time.Hour:
		step, unit, name = time.Minute, time.Minute, " min"
	case d < 3*day:
		step, unit, name = time.Hour, time.Hour, " h"
	}
	return strconv.Itoa(int(d.Round(step)/unit)) + name
}

// MergeSorted returns the union of two sorted lists without duplicates. It
// returns one of them as it is when the other adds nothing.
func MergeSorted[S ~string](a, b []S) []S {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	union := make([]S, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			union, a = append(union, a[0]), a[1:]
		case b[0] < a[0]:
			union, b = append(union, b[0]), b[1:]
		default:
			union, a, b = append(union, a[0]), a[1:], b[1:]
		}
	}
	return append(append(union, a...), b...)
}

// SortedUnique sorts the list in place and drops duplicates.
func SortedUnique[S ~string](list []S) []S {
	slices.Sort(list)
	return slices.Compact(list)
}

// Age is how long ago the task was accepted, never negative.
func (t *Task) Age(now time.Time) time.Duration { return max(0, now.Sub(t.AcceptedAt)) }

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earlier returns the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
