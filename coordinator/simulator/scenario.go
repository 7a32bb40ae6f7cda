package simulator

import (
	"time"

	"taskbus/coordinator"
)

// Scenario is what is simulated: a fleet, its work, and the strategies to compare.
// Read makes one from its file; it is not changed by Play.
type Scenario struct {
	Name string
	// About is one line for people.
	About string
	// Duration of the arrivals. What is measured begins at WarmUp. Drain is how long
	// after Duration tasks may still end.
	Duration, WarmUp, Drain time.Duration
	// Seeds, at least one: each is a whole run of every strategy.
	Seeds      []uint64
	Settings   coordinator.Settings
	Fleet      []Group
	Workloads  []Workload
	Strategies []Variant
	// Pulling, if not nil, is in place of Settings, Fleet, Workloads and Strategies.
	Pulling *Pulling
	// Sharing, if not nil, is in place of them, of Duration and of WarmUp.
	Sharing *Sharing
	// Priorities, if not nil, is in place of all of these.
	Priorities *Priorities
}

// Group is agents of one kind. Differences between agents are differences
// between groups, which keeps the best possible choice cheap to know.
type Group struct {
	Name string
	// Count agents, called Name when there is one, else Name-00001 and so on.
	Count int
	// Slots is how many tasks an agent works on at once; Advertised how many it
	// says it does. With more advertised than there are, tasks wait in its queue.
	Slots, Advertised int
	Capabilities      []string
	// Service is how long a task takes, where ServiceByType does not say; divided
	// by Speed. A task that brings its own length (see Tokens) is divided as well.
	Service       Distribution
	ServiceByType map[string]Distribution
	Speed         float64
	// Success is the probability that a task succeeds, where SuccessByType does not say.
	Success       float64
	SuccessByType map[string]float64
	// Drift changes the success probability in steps.
	Drift []Step
	// Stated, if not nil, is the success_rate of agents.yaml: what an operator says,
	// true or not.
	Stated *float64
	// Heartbeat interval. Each heartbeat is lost with probability Loss, and all of
	// them are in Silent; the first one, with which the agent joins, never is.
	Heartbeat time.Duration
	Loss      float64
	Silent    []Window
	// MTBF and MTTR are the means of the exponential times to a crash and to the
	// restart; MTBF 0: it never crashes.
	MTBF, MTTR time.Duration
	Reports    Reports
	// BusyWhenFull: it reports `busy` instead of `ready` while it has no free slot.
	BusyWhenFull bool
	// JoinAt is when its agents come.
	JoinAt        time.Duration
	AcceptTimeout time.Duration
	Rank          int
	Cost          float64
	Labels        map[string]string
}

// Step sets the success probability at a moment, for one task type or for all.
type Step struct {
	At   time.Duration
	Type string // empty: all
	Rate float64
}

// Window is a span of time, From included, To not.
type Window struct{ From, To time.Duration }

func (w Window) contains(at time.Duration) bool { return at >= w.From && at < w.To }

// Reports is what an agent reports to the coordinator beside being alive.
type Reports string

// What agents tell.
const (
	// ReportFull: as the SDK does, results, and in heartbeats which tasks it runs.
	ReportFull Reports = "full"
	// ReportResults: results; in heartbeats only how many tasks it runs.
	ReportResults Reports = "results"
	// ReportHeartbeats: nothing but heartbeats, as an agent that knows no task.result.
	ReportHeartbeats Reports = "heartbeats"
)

// Workload is a stream of tasks of one type.
type Workload struct {
	Type     string
	Required []string
	Arrivals Arrivals
	// From and Until bound its arrivals, Count (if positive) their number.
	From, Until time.Duration
	Count       int
	// Priorities is how much of the work has each priority; sums to 1.
	Priorities [4]float64
	// Timeout is how long an agent may work on a task, waiting in its queue included.
	Timeout time.Duration
	Labels  map[string]string
}

// ArrivalKind is how the tasks of a workload arrive.
type ArrivalKind string

// The kinds of arrivals.
const (
	ArrivePoisson  ArrivalKind = "poisson"  // Rate per second, independent of each other
	ArriveConstant ArrivalKind = "constant" // Rate per second, evenly
	ArriveBursts   ArrivalKind = "bursts"   // Size at once, Every so often
	// Size open at any time: one ends, one comes (after a second if it was refused)
	ArriveClosed ArrivalKind = "closed"
	ArriveTrace  ArrivalKind = "trace" // as recorded
)

// Arrivals says when tasks arrive.
type Arrivals struct {
	Kind  ArrivalKind
	Rate  float64 // per second
	Every time.Duration
	Size  int
	Trace Tokens
}

// Tokens is a recorded trace of LLM requests, and how long each takes:
// PerInput·input tokens + PerOutput·output tokens seconds.
type Tokens struct {
	// Name is azure-code, azure-conv, or a file.
	Name string
	// SpeedUp divides the time between arrivals.
	SpeedUp             float64
	PerInput, PerOutput float64
}

// Variant is one strategy, and what else is different under it.
type Variant struct {
	// Strategy by the name under which agents.yaml knows it, or one of the
	// references (see References).
	Strategy string
	// Label names the variant in the output; the strategy's name by default.
	Label string
	// Weights, AffinityLabel, SessionLabel, Exploration, Prefer and Formula are the
	// strategy's options, as in agents.yaml; Exploration −1: its default.
	Weights                     map[string]float64
	AffinityLabel, SessionLabel string
	Exploration                 float64
	Prefer                      string
	Formula                     string
	formulaAt                   Fault // where it stands, and nothing said of it yet
	// Advertised, if positive, replaces that of every group.
	Advertised int
	// Reports, if not empty, replaces that of every group.
	Reports Reports
	// Settings are the scenario's, with what this variant sets otherwise.
	Settings coordinator.Settings
}

// capable reports whether the group's agents have every capability required.
func (g *Group) capable(required []string) bool {
	for _, r := range required {
		if !contains(g.Capabilities, r) {
			return false
		}
	}
	return true
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// service is the distribution of how long tasks of the type take, before Speed.
func (g *Group) service(taskType string) Distribution {
	if d, ok := g.ServiceByType[taskType]; ok {
		return d
	}
	return g.Service
}

// success is the success probability of the type at the beginning.
func (g *Group) success(taskType string) float64 {
	if p, ok := g.SuccessByType[taskType]; ok {
		return p
	}
	return g.Success
}
