package main

import (
	"context"
	"fmt"
	"strings"
)

// learnedStrategy is the strategy with which the service is measured once more: it
// reads and learns most.
const learnedStrategy = "reward_rate"

// The targets of choosing, and of simulating it.
const (
	targetChoiceSmall = 2_000.0  // ns, among choiceSmall agents
	targetChoiceLarge = 10_000.0 // ns, among choiceLarge
	choiceSmall       = 100
	choiceLarge       = 10_000
	targetEvents      = 200_000.0 // of the engine, a second, in a simulation
)

// judgedStrategies are those of which a choice is timed.
var judgedStrategies = [...]string{"load_balanced", learnedStrategy}

// learning is the service with that strategy.
func learning() contender {
	_, c := contenders()
	c.name = learnedStrategy
	c.start = func(ctx context.Context, b *bench) (*subject, error) {
		return startTaskbus(ctx, b, fleetFile(100_000, skills), unlimited(0), "ASSIGNMENT_STRATEGY="+learnedStrategy)
	}
	return c
}

// judgeChoosing makes the verdicts about strategies.
func (r *results) judgeChoosing() []verdict {
	list := []verdict{r.judgeRate(learnedStrategy), r.judgeCPU(learnedStrategy)}
	for _, name := range judgedStrategies {
		list = append(list, r.judgeChoice(name, choiceSmall, targetChoiceSmall), r.judgeChoice(name, choiceLarge, targetChoiceLarge))
	}
	return append(list, r.judgeSimulation("herding"), r.judgeSimulation("ten-thousand"))
}

// judgeChoice is the time of one choice among agents that all can do the task.
func (r *results) judgeChoice(strategy string, agents int, target float64) verdict {
	v := verdict{What: fmt.Sprintf("choice by %s among %d agents", strategy, agents), Target: fmt.Sprintf("≤ %.0f µs", target/1000), Word: notMeasured}
	e, ok := medianOf(r.Choosing, func(e engineRun) bool {
		return e.Agents == agents && strings.HasPrefix(e.Name, "BenchmarkChoose/"+strategy+"/")
	})
	if !ok {
		return v
	}
	return v.measured(e.NanosPerOp <= target && e.AllocsPerOp == 0, fmt.Sprintf("%.1f µs", e.NanosPerOp/1000), fmt.Sprintf("%.0f allocations", e.AllocsPerOp))
}

// judgeSimulation is how many events of the engine a scenario plays in a second of
// one core.
func (r *results) judgeSimulation(scenario string) verdict {
	v := verdict{What: "simulator, events/s in " + scenario, Target: fmt.Sprintf("≥ %.0f", targetEvents), Word: notMeasured}
	e, ok := medianOf(r.Choosing, func(e engineRun) bool {
		return strings.HasPrefix(e.Name, "BenchmarkPlay/"+scenario+"/"+learnedStrategy)
	})
	if !ok {
		return v
	}
	return v.measured(e.EventsPerSec >= targetEvents, fmt.Sprintf("%.0f", e.EventsPerSec), learnedStrategy)
}
