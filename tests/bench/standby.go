package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
)

// standbyResult is what a second coordinator costs, how warm it is, and how soon it
// leads when the first is killed: all at a steady rate of tasks with results.
type standbyResult struct {
	PerSecond int `json:"tasks_per_second"`
	// CPU time of the standby and of the leader, as shares of one core.
	CPUShare       float64 `json:"cpu_share_of_a_core"`
	LeaderCPUShare float64 `json:"leader_cpu_share_of_a_core"`
	// Behind is by how many journal records, of so many a second, in each sample.
	Behind           []float64 `json:"records_behind"`
	RecordsPerSecond float64   `json:"records_per_second"`
	// TakeOverMillis: from the SIGKILL of the leader to /readyz of the standby;
	// PauseMillis: the longest time between two results meanwhile.
	TakeOverMillis []float64 `json:"killed_to_ready_ms"`
	PauseMillis    []float64 `json:"killed_longest_pause_ms"`
	// Tasks that were sent, and of them those that never had a result, and results
	// that came again (both of a task that was dispatched twice across a kill).
	Tasks int `json:"tasks"`
	Lost  int `json:"lost"`
	Twice int `json:"twice"`
}

// standbyLengths is how long is looked at what.
type standbyLengths struct {
	cpu       time.Duration
	samples   int // of how far the standby is behind, standbySample apart
	takeOvers int
}

const (
	// standbyStatuses is each of 100 agents every second: ten times as often as they do.
	standbyStatuses = 100
	standbySample   = 100 * time.Millisecond
	standbySettle   = time.Second             // of the load, before anything is measured
	takeOverPoll    = 5 * time.Millisecond    // of the new leader's /readyz
	takeOverRest    = 1500 * time.Millisecond // of load after each
)

func (b *bench) standbyLengths() standbyLengths {
	if b.options.quick {
		return standbyLengths{3 * time.Second, 10, 1}
	}
	return standbyLengths{8 * time.Second, 20, 3}
}

// pairOfTwo is a leader and who waits for its end, with a fleet that works.
type pairOfTwo struct {
	b               *bench
	leader, waiting *subject
	number          int // of coordinators so far
}

// standby measures all of that, in this order: CPU while nobody asks anything, how far
// behind, and then one kill after the other, each with a new standby behind it.
func (b *bench) standby(ctx context.Context, lengths standbyLengths) (r standbyResult, err error) {
	if err := b.broker.clean(); err != nil {
		return r, err
	}
	p := &pairOfTwo{b: b}
	defer func() {
		if err != nil {
			p.abandon()
		}
	}()
	if err := p.start(ctx); err != nil {
		return r, err
	}
	l, err := startLoad(ctx, b)
	if err != nil {
		return r, err
	}
	time.Sleep(standbySettle)
	r.PerSecond = latencyRate
	err = p.watch(ctx, lengths, &r)
	for i := 0; err == nil && i < lengths.takeOvers; i++ {
		if i > 0 {
			err = p.standBy(ctx)
		}
		if err == nil {
			err = p.takeOver(ctx, l, &r)
		}
	}
	t, loadErr := l.finish()
	if err := errors.Join(err, loadErr); err != nil {
		return r, err
	}
	r.Tasks, r.Lost, r.Twice = len(t.seen), len(t.seen)-t.arrived, t.twice
	b.say("standby: %.1f %% of a core (the leader %.1f %%), %.0f records behind (median), took over after %.0f ms, the longest pause %.0f ms; of %d tasks %d lost, %d twice",
		100*r.CPUShare, 100*r.LeaderCPUShare, median(r.Behind), r.TakeOverMillis, r.PauseMillis, r.Tasks, r.Lost, r.Twice)
	time.Sleep(afterwork) // for the last acknowledgements
	if err := p.stop(); err != nil {
		return r, err
	}
	if r.Lost > 0 || t.strange > 0 {
		return r, t.complete()
	}
	_, c := contenders()
	return r, b.verifyEmpty(c)
}

// start runs the leader, the fleet and the standby.
func (p *pairOfTwo) start(ctx context.Context) (err error) {
	if p.leader, err = startTaskbus(ctx, p.b, fleetFile(100_000, skills), unlimited(standbyStatuses)); err != nil {
		return err
	}
	// How many results there will be nobody knows: it need not say when all are done.
	if _, err = p.leader.with(ctx, p.b, "light", bus.StreamResult, strconv.Itoa(1<<30)); err != nil {
		return err
	}
	return p.standBy(ctx)
}

// standBy starts one more coordinator and returns when it has folded everything.
func (p *pairOfTwo) standBy(ctx context.Context) (err error) {
	p.number++
	name := fmt.Sprintf("standby-%d", p.number)
	p.waiting, err = launch(ctx, p.b, name, fleetFile(100_000, skills), nil, func(s *subject) error {
		return s.awaitEvery(ctx, readyPoll, "standing by", func() (bool, error) {
			var is httpapi.Readiness
			_, err := s.get(ctx, "/readyz", &is)
			return is.State == "standby", err
		})
	})
	if err != nil {
		return err
	}
	return p.waiting.awaitEvery(ctx, standbySample, "up to date with the journal", func() (bool, error) {
		behind, _, err := p.behind(ctx)
		return behind < latencyRate, err // less than a second's tasks; exactness is measured later
	})
}

// behind is by how many records the standby is behind the leader, and how many there
// are. The standby is asked first: rather too many than too few.
func (p *pairOfTwo) behind(ctx context.Context) (behind, records float64, err error) {
	folded, err := p.waiting.status(ctx)
	if err != nil {
		return 0, 0, err
	}
	written, err := p.leader.status(ctx)
	records = float64(written.Journal.Records)
	return records - float64(folded.Journal.Records), records, err
}

// watch measures CPU and how far behind the standby is, while all goes well.
func (p *pairOfTwo) watch(ctx context.Context, lengths standbyLengths, r *standbyResult) error {
	var before, after [2]procStat
	both := [...]*process{p.waiting.process, p.leader.process}
	_, first, err := p.behind(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	for i, process := range both {
		if before[i], err = process.stat(); err != nil {
			return err
		}
	}
	time.Sleep(lengths.cpu)
	elapsed := time.Since(begun)
	for i, process := range both {
		if after[i], err = process.stat(); err != nil {
			return err
		}
	}
	_, last, err := p.behind(ctx)
	if err != nil {
		return err
	}
	share := func(i int) float64 { return (after[i].cpu - before[i].cpu).Seconds() / elapsed.Seconds() }
	r.CPUShare, r.LeaderCPUShare = share(0), share(1)
	r.RecordsPerSecond = (last - first) / elapsed.Seconds()
	for range lengths.samples {
		time.Sleep(standbySample)
		behind, _, err := p.behind(ctx)
		if err != nil {
			return err
		}
		r.Behind = append(r.Behind, behind)
	}
	return nil
}

// takeOver kills the leader and times the standby, which leads then, with the fleet
// of the one before and nobody behind it.
func (p *pairOfTwo) takeOver(ctx context.Context, l *load, r *standbyResult) error {
	l.pause() // from here on
	begun := time.Now()
	if err := p.leader.process.kill(); err != nil {
		return err
	}
	p.waiting.statuses, p.waiting.others = p.leader.statuses, p.leader.others
	p.leader, p.waiting = p.waiting, nil
	err := p.leader.awaitEvery(ctx, takeOverPoll, "leading", func() (bool, error) { return p.leader.ready(ctx) })
	if err != nil {
		return err
	}
	r.TakeOverMillis = append(r.TakeOverMillis, sinceMillis(begun, time.Now()))
	time.Sleep(takeOverRest)
	r.PauseMillis = append(r.PauseMillis, float64(l.pause())/float64(time.Millisecond))
	return nil
}

// stop ends all in order, the standby first: it should not have to take over.
func (p *pairOfTwo) stop() error {
	var errs []error
	for _, s := range []*subject{p.waiting, p.leader} {
		if s != nil {
			errs = append(errs, s.stop())
		}
	}
	return errors.Join(errs...)
}

func (p *pairOfTwo) abandon() { _ = p.stop() }
