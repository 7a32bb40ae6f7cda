// Package balance is the agent's side of pulling. It computes for how many items an agent asks now, and
// when it asks again.
//
// Two controllers compute that. Both have the same methods; ask, pass the answer, wait:
//
//	for {
//		if n := c.Claim(now, local); n > 0 {
//			... send task.claim; c.Granted(now, items, view) or c.Unanswered(now)
//		}
//		... wait c.Interval(now, local)
//	}
//
// [Equal] is the one to use. It aims at equal drain times: it asks for what it lacks
// of its fair part, which the leader sends with every answer, and asks more often
// while it gets something. [Literal] is the pseudocode of BALANCING, for comparison
// and for agents that want exactly that: it asks for as many as it may, and varies the interval alone. It
// slows down agents that have little to do and speeds up those that have too much,
// and so is worse than no balancing (a test shows by how much).
//
// Where no answers come, the fleet may be known otherwise: [Others] makes a picture of
// what a registry says, and Seen takes it. It is used while it is younger than
// heartbeat-ttl-ms, as the one of the last answer is; then the controllers are blind.
//
// With load-balancing.enabled false, the default, both poll at the base interval for as
// many items as they may.
//
// [Estimator] measures the capacity, [HealthOf] and [PresenceOf] give BALANCING's terms
// for a backlog and for a silence.
//
// # What it must never do
//
// It sends nothing, reads no clock and rolls no dice: time is an argument and the jitter
// a hash of the agent's id and a seed. No interval is ever outside 200 ms to 10 s. What
// it asks for is a wish: the leader grants what is fair and what slots allow.
package balance
