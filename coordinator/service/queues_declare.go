package service

import (
	"context"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
)

const (
	// declarePause is between two queues that are declared: a hundred a second at most. A quorum queue
	// costs the broker much, and a file with thousands of agents by mistake is put right soon.
	declarePause   = 10 * time.Millisecond
	declareTimeout = 10 * time.Second
)

// declaration are the queues of agents that are new in agents.yaml and may not exist yet. It belongs to
// the goroutine checkQueues.
type declaration struct {
	left []string
	// What has become of those that are not left.
	declared, unwanted, missing int
	err                         error // the first

	under *config.Config // it lists the agents with queues that are wanted
	wants map[string]bool
}

// wanted reports whether agents.yaml lists an agent with that queue, as it is now.
func (d *declaration) wanted(c *config.Config, queue string) bool {
	if d.under != c {
		d.under, d.wants = c, make(map[string]bool)
		for _, q := range c.AgentQueues() {
			d.wants[q] = true
		}
	}
	return d.wants[queue]
}

// declareNewQueues has the queues of agents declared that the old configuration did not have. A standby
// does so when it leads.
func (s *Service) declareNewQueues(old, c *config.Config) {
	r := s.current.Load()
	if r == nil {
		return
	}
	known := make(map[string]bool)
	for _, q := range old.AgentQueues() {
		known[q] = true
	}
	var list []string
	for _, q := range c.AgentQueues() {
		if !known[q] {
			list = append(list, q)
		}
	}
	if len(list) > 0 {
		r.newQueues.order(list)
	}
}

// checkQueues answers the engine's questions for missing queues and, when there are none, declares those
// of new agents: one at a time, and only what is wanted still.
func (r *session) checkQueues() {
	var d declaration
	more := make(chan struct{}) // closed: there is something to declare
	close(more)
	for {
		next := more
		if len(d.left) == 0 {
			r.s.observe.Declared(d.declared, d.unwanted, d.missing, d.err)
			d.declared, d.unwanted, d.missing, d.err, next = 0, 0, 0, nil, nil
		}
		asked := false
		select {
		case q := <-r.checks: // a task waits for it, perhaps
			asked = r.checkQueue(&d, q)
		default:
			select {
			case <-r.bus.Done():
				return
			case q := <-r.checks:
				asked = r.checkQueue(&d, q)
			case <-r.newQueues.signal:
				for list, ok := r.newQueues.next(); ok; list, ok = r.newQueues.next() {
					d.left = append(d.left, list...)
				}
			case <-next:
				asked = r.declareNext(&d)
			}
		}
		if asked && !r.pause(declarePause) {
			return
		}
	}
}

// pause reports whether the session still stands after that time.
func (r *session) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.bus.Done():
		return false
	case <-timer.C:
		return true
	}
}

// declareNext declares the next queue, or passes over it; it reports whether the broker was asked.
func (r *session) declareNext(d *declaration) bool {
	queue := d.left[0]
	d.left = d.left[1:]
	if r.draining.Load() || !d.wanted(r.s.config.Load(), queue) {
		d.unwanted++
		return false
	}
	switch exists, err := r.ensureQueue(queue); {
	case err != nil || !exists:
		d.missing++
		if d.err == nil {
			d.err = err
		}
	default:
		d.declared++
	}
	return true
}

// checkQueue answers one question of the engine; it reports whether the broker was asked.
func (r *session) checkQueue(d *declaration, q coordinator.EnsureQueue) bool {
	if !d.wanted(r.s.config.Load(), q.Queue) && !r.belongs(q.Agent) {
		r.s.loop.post(r.number, coordinator.QueueChecked{Agent: q.Agent}) // it has left meanwhile
		return false
	}
	exists, err := r.ensureQueue(q.Queue)
	r.s.observe.QueueChecked(q, exists, err)
	r.s.loop.post(r.number, coordinator.QueueChecked{Agent: q.Agent, Exists: exists && err == nil})
	return true
}

// belongs reports whether the agent is part of the fleet; when the loop does not answer, it may be.
func (r *session) belongs(agent coordinator.AgentID) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	has := false
	err := r.s.loop.query(ctx, func(_ time.Time, e *engine.Engine) { has = e.HasAgent(agent) })
	return err != nil || has
}

func (r *session) ensureQueue(queue string) (exists bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), declareTimeout)
	defer cancel()
	return r.bus.EnsureQueue(ctx, bus.AgentQueue(r.s.profile(), queue))
}
