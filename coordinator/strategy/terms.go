package strategy

import (
	"math"

	"taskbus/coordinator"
	"taskbus/coordinator/hash"
)

// Term is one named quantity of an agent for a task. Formulas and weights are
// made of them.
type Term struct {
	Name string
	// About says what it is, with its range or unit.
	About string
	// Learned says that Value reads the Standing.
	Learned bool
	Value   func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) float64
}

// Terms lists every term, in the order in which people should read them. The
// first eight are normalised, from 0 to 1 and larger is better: those of weighted.
// The others are as they are measured. The caller owns the list.
func Terms() []Term {
	return []Term{
		{FitTerm, "required / offered capabilities: 1 for a specialist in exactly this", false,
			func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 { return fit(c, a) }},
		{FreeTerm, "free slots / slots", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 { return free(a) }},
		{SuccessTerm, "expected rate of success with tasks of this type, the same as success_rate", true, successRate},
		{SpeedTerm,
			"mean duration of the type / (that + the agent's): 0.5 at the mean or when not known, towards 1 the faster", true,
			func(c *coordinator.Case, _ *coordinator.AgentView, s *coordinator.Standing) float64 {
				return speed(c, s)
			}},
		{CostTerm, "1 − cost / largest cost of the fleet: larger is cheaper; 0.5 when not known", false,
			func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return cheapness(c, a)
			}},
		{AffinityTerm, "1 if agent and task agree in the label affinity_label, else 0", false,
			func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return affinity(c, a)
			}},
		{SessionTerm, "hash of agent and session_label: tasks of one session prefer the same agent; 0 without a session",
			false,
			func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return session(c, a)
			}},
		{RankTerm, "(5 − the agent's priority) / 4: 1 for priority 1, 0 for priority 5", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 { return rank(a) }},

		{"success_rate", "expected rate of success with tasks of this type, 0 to 1", true, successRate},
		{"load", "max(reported load, tasks in flight / slots), 0 to 1", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 { return a.Load }},
		{"reported_load", "current_load of the agent's latest report, 0 to 1", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return a.ReportedLoad
			}},
		{"in_flight", "tasks it has, counting dispatches at once", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(a.InFlight)
			}},
		{"max_slots", "tasks it may have at once", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(a.Max)
			}},
		{"free_slots", "slots that are free, at least 1", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(a.Free)
			}},
		{"capabilities", "how many capabilities it offers", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(a.Capabilities)
			}},
		{"flexibility", "demand / supply, summed over its capabilities; the least flexible should go first", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return a.Flexibility
			}},
		{"capacity", "tasks it can do in a second, reported or measured", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return a.Capacity
			}},
		{"pending", "tasks it has not finished", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(a.Pending)
			}},
		{"duration_s", "seconds a task of this type is expected to take; 0 when not known", true,
			func(_ *coordinator.Case, _ *coordinator.AgentView, s *coordinator.Standing) float64 {
				return s.Duration
			}},
		{"agent_cost", "its cost as stated or measured; 0 when not known", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 { return a.Cost }},
		{"agent_priority", "its priority, 1 to 5: the lower goes first", false,
			func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(a.Rank)
			}},
		{"priority", "the task's priority, 0 (low) to 3 (critical)", false,
			func(c *coordinator.Case, _ *coordinator.AgentView, _ *coordinator.Standing) float64 {
				return float64(c.Task.Priority)
			}},
	}
}

// The terms that weighted adds up.
const (
	FitTerm      = "fit"
	FreeTerm     = "free"
	SuccessTerm  = "success"
	SpeedTerm    = "speed"
	CostTerm     = "cost"
	AffinityTerm = "affinity"
	SessionTerm  = "session"
	RankTerm     = "rank"
)

func successRate(_ *coordinator.Case, _ *coordinator.AgentView, s *coordinator.Standing) float64 {
	return s.Success
}

// fit is 1 for an agent that can do just what the task requires, and smaller the
// more else it could do meanwhile.
func fit(c *coordinator.Case, a *coordinator.AgentView) float64 {
	if a.Capabilities == 0 {
		return 1
	}
	return min(1, float64(c.Required)/float64(a.Capabilities))
}

func free(a *coordinator.AgentView) float64 {
	if a.Max <= 0 {
		return 0
	}
	return clamp(float64(a.Free) / float64(a.Max))
}

// speed is 1/2 for an agent as fast as the mean of the fleet, 2/3 for one that is
// twice as fast, 1/3 for one half as fast. An unknown agent counts as the mean.
func speed(c *coordinator.Case, s *coordinator.Standing) float64 {
	if !(c.Reference > 0 && s.Duration > 0) {
		return 0.5
	}
	return c.Reference / (c.Reference + s.Duration)
}

// cheapness takes an agent whose cost is not known for neither cheap nor dear:
// taken for free it would get everything.
func cheapness(c *coordinator.Case, a *coordinator.AgentView) float64 {
	if !(c.MaxCost > 0 && a.Cost > 0) {
		return 0.5
	}
	return clamp(1 - a.Cost/c.MaxCost)
}

func affinity(c *coordinator.Case, a *coordinator.AgentView) float64 {
	if c.Affinity == "" || a.Labels[c.AffinityLabel] != c.Affinity {
		return 0
	}
	return 1
}

// session is rendezvous hashing: every agent draws a number for the session, and
// it prefers the largest. The agent that has drawn it stays the same when others come or
// go. The number is drawn from a Gumbel distribution, because then the largest
// lies above the second largest by the same distance on average (a fourteenth) in
// fleets of every size; uniform numbers crowd together below 1 as fleets grow.
func session(c *coordinator.Case, a *coordinator.AgentView) float64 {
	if c.Session == 0 {
		return 0
	}
	u := hash.Unit(hash.Mix(c.Session ^ a.Hash))
	return clamp((2 - math.Log(-math.Log(u))) / 14) // beyond −2 and 12: 1 in 1,600, and in 160,000
}

func rank(a *coordinator.AgentView) float64 { return clamp(float64(5-a.Rank) / 4) }

func clamp(x float64) float64 { return max(0, min(1, x)) }

// prepare completes the case for the terms affinity and session; nil where no
// label is configured.
func prepare(o Options) func(*coordinator.Case) {
	if o.AffinityLabel == "" && o.SessionLabel == "" {
		return nil
	}
	return func(c *coordinator.Case) {
		if o.AffinityLabel != "" {
			c.AffinityLabel, c.Affinity = o.AffinityLabel, c.Task.Labels[o.AffinityLabel]
		}
		if o.SessionLabel != "" {
			c.Session = 0
			if session := c.Task.Labels[o.SessionLabel]; session != "" {
				c.Session = max(1, hash.Of(session, 0))
			}
		}
	}
}
