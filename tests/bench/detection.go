package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// detectionResult is how soon the departure of agents was noticed, and their work
// given to others. Each has one value for each departure.
type detectionResult struct {
	// SilentMillis: from the moment the threshold passes, for an agent that is
	// stopped (SIGSTOP), to the result of the last task that was ready in its queue.
	SilentMillis []float64 `json:"silent_to_redone_ms"`
	// OfflineMillis: from the moment an agent reports itself offline to the same.
	OfflineMillis []float64 `json:"offline_to_redone_ms"`
	// GoneMillis: from the moment an agent is killed (SIGKILL) with tasks in hand to
	// the event that says so; KilledMillis: to the result of the last of these tasks.
	GoneMillis   []float64 `json:"killed_to_noticed_ms"`
	KilledMillis []float64 `json:"killed_to_redone_ms"`
}

// The fleet of the detection runs: victims of three kinds, and one that has room
// for the tasks of all.
const (
	detectionRepeats = 3
	staleSeconds     = 3
	rescuer          = "rescue"
	rescueSlots      = 500
	detectionTimeout = 15 * time.Second
)

// The ways to leave.
const (
	leavesSilent  = "silent"
	leavesOffline = "offline"
	leavesKilled  = "killed"
)

var departures = [...]string{leavesSilent, leavesOffline, leavesKilled}

// victim is one agent that is going to leave. Its tasks are numbered from first on.
type victim struct {
	id      string
	role    string // of its process
	first   int
	process *process
}

func victims() []*victim {
	var all []*victim
	for _, way := range departures {
		role := "plain"
		if way == leavesKilled {
			role = "holder"
		}
		for i := range detectionRepeats {
			all = append(all, &victim{id: fmt.Sprintf("%s-%d", way, i), role: role, first: len(all) * victimSlots})
		}
	}
	return all
}

func (v *victim) queue() string { return "agent." + v.id }

// handed is how many tasks the broker hands to the victim at once: the others are
// ready in its queue.
func (v *victim) handed() int {
	if v.role == "plain" {
		return 1
	}
	return victimSlots
}

// detectionQueues are the agents' queues of these runs.
func detectionQueues() []string {
	all := []string{"agent." + rescuer}
	for _, v := range victims() {
		all = append(all, v.queue())
	}
	return all
}

// detectionFile is an agents.yaml in which each victim has a task type of its own
// that only the rescuer can do beside it, and for which it is preferred as long as
// it is there.
func detectionFile(all []*victim) []byte {
	var b strings.Builder
	b.WriteString("agents:\n")
	agent := func(id string, slots int, capabilities ...string) {
		fmt.Fprintf(&b, "  %s: {capabilities: [%s], max_concurrent_tasks: %d, health_check_interval: %d, accept_timeout_seconds: 3600}\n",
			id, strings.Join(capabilities, ", "), slots, victimInterval/time.Second)
	}
	var every []string
	for _, v := range all {
		agent(v.id, victimSlots, v.id)
		every = append(every, v.id)
	}
	agent(rescuer, rescueSlots, every...)
	b.WriteString("task_routing:\n")
	for _, v := range all {
		fmt.Fprintf(&b, "  for-%s: {required_capabilities: [%s], preferred_agents: [%s]}\n", v.id, v.id, v.id)
	}
	fmt.Fprintf(&b, "global_settings: {stale_agent_threshold_seconds: %d, assignment_timeout_seconds: 60}\n", staleSeconds)
	return []byte(b.String())
}

// detection lets agents with work leave, and measures how soon it is done by
// another. Every task must have exactly one result in the end.
func (b *bench) detection(ctx context.Context) (r detectionResult, err error) {
	if err := b.broker.clean(); err != nil {
		return r, err
	}
	all := victims()
	s, err := launchTaskbus(ctx, b, detectionFile(all))
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	w, err := newWitness(b.url, all)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.conn.Close()) }()
	if err := b.occupy(ctx, s, all); err != nil {
		return r, err
	}
	for _, v := range all[2*detectionRepeats:] {
		if err := r.watchKilled(ctx, s, w, v); err != nil {
			return r, err
		}
	}
	for _, v := range all[detectionRepeats : 2*detectionRepeats] {
		if err := r.watchOffline(ctx, w, v); err != nil {
			return r, err
		}
	}
	if err := r.watchSilent(ctx, s, w, all[:detectionRepeats]); err != nil {
		return r, err
	}
	return r, b.detectionEnds(ctx, s, w, all)
}

// seenWithin is how long the service may take to see that an agent's queue has a
// consumer: it looks once a second, and only who has been seen to consume can be
// missed.
const seenWithin = 1500 * time.Millisecond

// occupy starts everybody and gives each victim as many tasks as it has slots.
func (b *bench) occupy(ctx context.Context, s *subject, all []*victim) (err error) {
	if _, err := s.with(ctx, b, "rescue", rescuer); err != nil {
		return err
	}
	for _, v := range all {
		// Not one of s.others: some do not live to see its end.
		if v.process, err = b.startRole(ctx, v.role, v.id); err != nil {
			return err
		}
		s.others = append(s.others, v.process)
	}
	if err := s.awaitOnline(ctx, len(all)+1); err != nil {
		return err
	}
	for _, v := range all {
		tasks := func(n int) amqp.Publishing { return taskOf(n, "for-"+v.id) }
		if err := b.broker.fillWith(bus.QueueAssign, v.first, victimSlots, tasks); err != nil {
			return err
		}
	}
	err = s.await(ctx, "rid of all tasks", func() (bool, error) {
		for _, v := range all {
			ready, err := b.broker.ready(v.queue())
			if err != nil || ready != victimSlots-v.handed() {
				return false, err
			}
		}
		status, err := s.status(ctx)
		return status.Counters.Dispatched == uint64(len(all)*victimSlots) && status.Counters.Held == 0, err
	})
	time.Sleep(seenWithin)
	return err
}

func sinceMillis(from, to time.Time) float64 {
	return float64(to.Sub(from)) / float64(time.Millisecond)
}

func (r *detectionResult) watchKilled(ctx context.Context, s *subject, w *witness, v *victim) error {
	s.others = slices.DeleteFunc(s.others, func(p *process) bool { return p == v.process })
	begun := time.Now()
	if err := v.process.kill(); err != nil {
		return err
	}
	if err := w.until(ctx, "the last task of "+v.id, func() bool { return w.done(v) == victimSlots && !w.left[v.id].IsZero() }); err != nil {
		return err
	}
	r.GoneMillis = append(r.GoneMillis, sinceMillis(begun, w.left[v.id]))
	r.KilledMillis = append(r.KilledMillis, sinceMillis(begun, w.last[v.id]))
	return nil
}

func (r *detectionResult) watchOffline(ctx context.Context, w *witness, v *victim) error {
	begun := time.Now()
	if _, err := fmt.Fprintln(v.process.stdin, "offline"); err != nil {
		return fmt.Errorf("tell %s to leave: %w", v.id, err)
	}
	if err := w.untilRedone(ctx, v); err != nil {
		return err
	}
	r.OfflineMillis = append(r.OfflineMillis, sinceMillis(begun, w.last[v.id]))
	return nil
}

// watchSilent stops all at about the same time: the threshold need pass but once.
func (r *detectionResult) watchSilent(ctx context.Context, s *subject, w *witness, all []*victim) error {
	for _, v := range all {
		if err := v.process.freeze(); err != nil {
			return err
		}
	}
	time.Sleep(afterwork) // for the last heartbeat to arrive
	status, err := s.status(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := w.untilRedone(ctx, v); err != nil {
			return err
		}
		for _, a := range status.Agents {
			if a.ID == v.id {
				r.SilentMillis = append(r.SilentMillis, sinceMillis(a.LastHeartbeat.Add(staleSeconds*time.Second), w.last[v.id]))
			}
		}
	}
	return nil
}

// detectionEnds stops the victims that are left. What they had in hand is done by
// another then.
func (b *bench) detectionEnds(ctx context.Context, s *subject, w *witness, all []*victim) error {
	for _, v := range all {
		if slices.Contains(s.others, v.process) {
			s.others = slices.DeleteFunc(s.others, func(p *process) bool { return p == v.process })
			if err := v.process.stop(); err != nil {
				return err
			}
		}
	}
	for _, v := range all {
		if err := w.until(ctx, "the last task of "+v.id, func() bool { return w.done(v) == victimSlots }); err != nil {
			return err
		}
	}
	if err := s.stop(); err != nil {
		return err
	}
	return b.verifyResults(contender{name: "detection", input: bus.QueueAssign, queues: detectionQueues()},
		bus.StreamResult, newTally(len(all)*victimSlots))
}
