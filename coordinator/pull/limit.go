package pull

// Limit is why fewer items were granted than were asked for: a closed set. Its text is
// the reason of task.granted.
type Limit uint8

// The limits.
const (
	LimitNone         Limit = iota // it got what it asked for
	LimitUnclaimed                 // the leader has no more
	LimitSlots                     // the agent has no more free slots
	LimitFairShare                 // the rest is the part of others
	LimitUnavailable               // the agent may have no work now: it is cordoned, silent, or has no queue
	LimitUnknownAgent              // it is not of the fleet
	LimitSuperseded                // the agent has made another claim, which counts instead
	numLimits
)

var limits = [numLimits]string{"", "no_unclaimed_items", "no_free_slots", "fair_share", "agent_unavailable",
	"unknown_agent", "superseded"}

// String is the word used on the bus; empty for LimitNone.
func (l Limit) String() string {
	if l >= numLimits {
		return "unknown_limit"
	}
	return limits[l]
}

// Limits lists every limit, for metrics and documentation.
func Limits() []Limit {
	all := make([]Limit, 0, numLimits-1)
	for l := LimitNone + 1; l < numLimits; l++ {
		all = append(all, l)
	}
	return all
}
