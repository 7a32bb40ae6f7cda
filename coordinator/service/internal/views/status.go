package views

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// maxLanesShown bounds the lanes in /status and the values of the label `lane`: those with
// most in them are shown.
const maxLanesShown = 100

// ShownLanes returns the lanes with most in them, and what is in all others.
func ShownLanes(snap *coordinator.Snapshot) (shown []coordinator.LaneSnapshot, rest int) {
	all := slices.Clone(snap.Lanes)
	slices.SortStableFunc(all, func(a, b coordinator.LaneSnapshot) int {
		return cmp.Or(cmp.Compare(b.Ready+b.Waiting, a.Ready+a.Waiting), cmp.Compare(a.Lane, b.Lane))
	})
	n := min(len(all), maxLanesShown)
	for _, l := range all[n:] {
		rest += l.Ready
	}
	return all[:n], rest
}

// Lanes returns them as /status shows them.
func Lanes(snap coordinator.Snapshot) []view.Lane {
	shown, _ := ShownLanes(&snap)
	lanes := make([]view.Lane, len(shown))
	for i, l := range shown {
		lanes[i] = view.Lane{
			Name: bus.LaneQueue(l.Lane).Name, Ready: l.Ready, Waiting: l.Waiting, Moving: l.Moving, Read: l.Read,
			Orphan: l.Orphan,
		}
	}
	return lanes
}

// Agent returns it as /status shows it, but for how its tasks ended.
func Agent(a coordinator.AgentSnapshot) view.Agent {
	v := view.Agent{
		ID: string(a.Spec.ID), Queue: a.Spec.Queue, Capabilities: a.Spec.Capabilities, Rank: a.Spec.Rank,
		State: a.State.String(), Status: a.Status.String(), Load: a.Load, ReportedLoad: a.ReportedLoad,
		InFlight: a.InFlight, Uncovered: a.Uncovered, FreeSlots: a.Free, Slots: a.Slots, MaxConcurrent: a.Spec.MaxConcurrent,
		Assigned: a.Assigned, LastHeartbeat: a.LastHeartbeat,
		HealthCheck: a.Spec.HealthCheckInterval.Seconds(),
		Eligible:    a.Eligibility == coordinator.Eligible,
		Leased:      a.Leased, Strays: a.Strays, Cordoned: a.Cordoned, Draining: a.Draining, Drained: a.Drained,
		Discovered: a.Discovered,
	}
	if a.Instances > 1 {
		v.Instances = a.Instances
	}
	if !v.Eligible {
		v.WhyNot = a.Eligibility.String()
	}
	for i, c := range a.EjectedFrom {
		v.Ejected = append(v.Ejected, view.Ejection{Capability: c, Until: a.EjectedUntil[i]})
	}
	return v
}

// Pending counts what waits for a slot.
func Pending(snap coordinator.Snapshot) view.Pending {
	p := view.Pending{
		ByPriority: make(map[string]int), ByReason: make(map[string]int),
		Gathering: snap.Gathering, Bidding: snap.Bidding, Moving: snap.Moving, Dispatching: snap.Dispatching,
		Leased: snap.Leased, OldestSeconds: snap.OldestPending.Seconds(),
	}
	for i, n := range snap.Pending {
		p.Total += n
		p.ByPriority[coordinator.Priority(i).String()] = n
	}
	if snap.Delayed > 0 {
		p.ByReason["waits_for_retry"] = snap.Delayed
	}
	for _, w := range snap.Waits {
		p.Waits = append(p.Waits, view.Wait{
			Required: append([]string{}, w.Required...), Tasks: w.Tasks, OldestSeconds: w.Oldest.Seconds(),
			ReasonCode: w.Reason.String(), Reason: w.Text,
		})
	}
	for r, n := range snap.PendingReasons {
		code := r.String()
		if r == coordinator.ReasonNone {
			code = "other"
		}
		p.ByReason[code] = n
	}
	return p
}

// CancelWord returns the state of a cancel in the words of the HTTP interface.
func CancelWord(s coordinator.CancelState) string {
	switch s {
	case coordinator.CancelDone:
		return view.Cancelled
	case coordinator.CancelAsked:
		return view.CancelRequested
	case coordinator.CancelNoted:
		return view.CancelNoted
	default:
		return view.CancelTooLate
	}
}

// Milliseconds returns a duration as answers have it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// RecentKind is what recentOutcomes counts.
type RecentKind uint8

const (
	RecentAssigned  RecentKind = iota // dispatches confirmed
	RecentRefused                     // tasks that could not be assigned
	RecentSucceeded                   // tasks that ended well at an agent
	RecentBroken                      // tasks that failed at an agent: by its word, or for want of one in time
	RecentReceived                    // deliveries of producers' messages, each for the first time
	NumRecentKinds  = iota
)

// RecentCounts are the counts by kind.
type RecentCounts [NumRecentKinds]uint64

// SenderCount is how many messages of the last minute name an id; empty: it could not be read.
type SenderCount struct {
	ID string
	N  uint64
}
