package simulator

import "taskbus/coordinator"

// Report is what came out of a scenario.
type Report struct {
	Scenario   string        `json:"scenario"`
	About      string        `json:"about,omitempty"`
	Seeds      []uint64      `json:"seeds"`
	Duration   float64       `json:"duration_seconds"`
	WarmUp     float64       `json:"warm_up_seconds"`
	Strategies []Performance `json:"strategies"`
}

// Value is the mean over the seeds, and half the width of its 95 % confidence
// interval: 0 for one seed, which says nothing about chance.
type Value struct {
	Mean     float64 `json:"mean"`
	Interval float64 `json:"interval95,omitempty"`
}

// Performance is how one variant did. See the package's documentation for what
// its values mean.
type Performance struct {
	Strategy string `json:"strategy"`
	Label    string `json:"label"`
	// Tasks of the whole run, summed over the seeds: every one that arrived has
	// succeeded, has failed, or is still open.
	Tasks       Tasks `json:"tasks"`
	Throughput  Value `json:"throughput_per_second"`
	SuccessRate Value `json:"success_rate"`
	WaitMean    Value `json:"wait_mean_seconds"`
	WaitP50     Value `json:"wait_p50_seconds"`
	WaitP99     Value `json:"wait_p99_seconds"`
	WaitMax     Value `json:"wait_max_seconds"`
	Utilisation Value `json:"utilisation"`
	Jain        Value `json:"jain_index"`
	Violations  Value `json:"work_conservation_violated_seconds"`
	// RegretSuccess and RegretReward per decision.
	RegretSuccess Value `json:"regret_success"`
	RegretReward  Value `json:"regret_reward"`
	Decisions     Value `json:"decisions"`
	// Events that the engine was given.
	Events Value `json:"engine_events"`
	// Failed is by reason code, agent_failed among them, how many tasks of those
	// that arrived after the warm-up; only what happened.
	Failed []FailedTasks `json:"failed,omitempty"`
	Groups []GroupShare  `json:"groups"`
	// Timing is given when a stopwatch is.
	Timing *Timing `json:"timing,omitempty"`
	// WaitQuantiles are the waits at evenly spaced shares of the tasks, from the
	// shortest to the longest. RegretCourse and RewardCourse are the regrets, summed
	// up from the warm-up to the end of each of a hundred equal spans.
	WaitQuantiles []float64 `json:"wait_quantiles_seconds,omitempty"`
	RegretCourse  []float64 `json:"regret_success_course,omitempty"`
	RewardCourse  []float64 `json:"regret_reward_course,omitempty"`
}

// Tasks counts the tasks by where they ended.
type Tasks struct {
	Arrived   int `json:"arrived"`
	Succeeded int `json:"succeeded"`
	// FailedByAgent by its word; Refused or given up by the coordinator.
	FailedByAgent int `json:"failed_by_agent"`
	Refused       int `json:"failed_by_coordinator"`
	// Open when the simulation ended.
	Open int `json:"open"`
}

// FailedTasks counts the tasks that failed for one reason.
type FailedTasks struct {
	Reason string `json:"reason"`
	Tasks  Value  `json:"tasks"`
}

// AgentFailed stands among the reason codes for a task whose agent reported that
// it failed.
const AgentFailed = "agent_failed"

// GroupShare is the part of one group.
type GroupShare struct {
	Group  string `json:"group"`
	Agents int    `json:"agents"`
	// Share of the decisions, 0 to 1, and of its slot-seconds at work.
	Share       Value `json:"share"`
	Utilisation Value `json:"utilisation"`
}

// Timing is how long the simulator took, by the stopwatch.
type Timing struct {
	Seconds         float64 `json:"seconds"`
	EventsPerSecond float64 `json:"engine_events_per_second"`
}

func newReport(s *Scenario, runs [][]outcome, timed bool) *Report {
	r := &Report{
		Scenario: s.Name, About: s.About, Seeds: s.Seeds,
		Duration: s.Duration.Seconds(), WarmUp: s.WarmUp.Seconds(),
	}
	for i := range s.Strategies {
		p := performance(s, runs[i])
		p.Strategy, p.Label = s.Strategies[i].Strategy, s.Strategies[i].Label
		if timed {
			p.Timing = timing(runs[i])
		}
		r.Strategies = append(r.Strategies, p)
	}
	return r
}

// performance summarises the runs of one variant.
func performance(s *Scenario, runs []outcome) Performance {
	of := func(value func(*outcome) float64) Value { return Summarise(runs, value) }
	p := Performance{
		Throughput:    of(func(o *outcome) float64 { return o.throughput }),
		SuccessRate:   of(func(o *outcome) float64 { return o.success }),
		WaitMean:      of(func(o *outcome) float64 { return o.waitMean }),
		WaitP50:       of(func(o *outcome) float64 { return o.waitP50 }),
		WaitP99:       of(func(o *outcome) float64 { return o.waitP99 }),
		WaitMax:       of(func(o *outcome) float64 { return o.waitMax }),
		Utilisation:   of(func(o *outcome) float64 { return o.utilisation }),
		Jain:          of(func(o *outcome) float64 { return o.jain }),
		Violations:    of(func(o *outcome) float64 { return o.violations }),
		RegretSuccess: of(func(o *outcome) float64 { return o.regretSuccess }),
		RegretReward:  of(func(o *outcome) float64 { return o.regretReward }),
		Decisions:     of(func(o *outcome) float64 { return o.decisions }),
		Events:        of(func(o *outcome) float64 { return o.events }),
		WaitQuantiles: means(runs, func(o *outcome) []float64 { return o.waits }),
		RegretCourse:  means(runs, func(o *outcome) []float64 { return o.regretCourse }),
		RewardCourse:  means(runs, func(o *outcome) []float64 { return o.rewardCourse }),
	}
	for i := range runs {
		t := runs[i].tasks
		p.Tasks.Arrived += t.Arrived
		p.Tasks.Succeeded += t.Succeeded
		p.Tasks.FailedByAgent += t.FailedByAgent
		p.Tasks.Refused += t.Refused
		p.Tasks.Open += t.Open
	}
	for reason := range numReasons {
		v := of(func(o *outcome) float64 { return float64(o.failed[reason]) })
		if v.Mean == 0 {
			continue
		}
		name := AgentFailed
		if r := coordinator.Reason(reason); r != coordinator.ReasonNone {
			name = r.String()
		}
		p.Failed = append(p.Failed, FailedTasks{name, v})
	}
	for g := range s.Fleet {
		p.Groups = append(p.Groups, GroupShare{
			Group: s.Fleet[g].Name, Agents: s.Fleet[g].Count,
			Share:       of(func(o *outcome) float64 { return o.groupShare[g] }),
			Utilisation: of(func(o *outcome) float64 { return o.groupUse[g] }),
		})
	}
	return p
}

func timing(runs []outcome) *Timing {
	var t Timing
	events := 0.0
	for i := range runs {
		t.Seconds += runs[i].took.Seconds()
		events += runs[i].events
	}
	t.EventsPerSecond = Ratio(events, t.Seconds)
	return &t
}
