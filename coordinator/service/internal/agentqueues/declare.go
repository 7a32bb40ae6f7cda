package agentqueues

import (
	"context"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
)

const (
	// DeclarePause is between two queues that are declared: a hundred a second at most. A quorum queue
	// costs the broker much, and a file with thousands of agents by mistake is put right soon.
	DeclarePause   = 10 * time.Millisecond
	declareTimeout = 10 * time.Second
)

// declaration are the queues of agents that are new in agents.yaml and may not exist yet. It belongs to
// the goroutine of Work.
type declaration struct {
	left []string
	// What has become of those that are not left.
	declared, unwanted, missing int
	err                         error // the first

	under  *config.Config // it lists the agents with queues that are wanted
	agents map[string]coordinator.AgentID
}

// agent returns the agent that agents.yaml lists with that queue, as it is now.
func (d *declaration) agent(c *config.Config, queue string) (id coordinator.AgentID, wanted bool) {
	if d.under != c {
		d.under, d.agents = c, make(map[string]coordinator.AgentID)
		for _, a := range c.Policy().Agents {
			d.agents[a.Queue] = a.ID
		}
	}
	id, wanted = d.agents[queue]
	return id, wanted
}

func set(list []string) map[string]bool {
	all := make(map[string]bool, len(list))
	for _, one := range list {
		all[one] = true
	}
	return all
}

// Declare has the queues of agents declared that the old configuration did not have. A standby
// does so when it leads.
func (q *Queues) Declare(old, c *config.Config) {
	known := set(old.AgentQueues())
	var list []string
	for _, queue := range c.AgentQueues() {
		if !known[queue] {
			list = append(list, queue)
		}
	}
	if len(list) > 0 {
		q.listed.Add(list)
	}
}

// Check asks for a queue to be seen to. It never blocks.
func (q *Queues) Check(which coordinator.EnsureQueue) {
	select {
	case q.checks <- which:
	default: // it is asked for again as long as there is no answer
	}
}

// Work answers the engine's questions for missing queues and, when there are none, declares those
// of new agents: one at a time, and only what is wanted still. It runs on a goroutine of its own until the session
// ends.
func (q *Queues) Work() {
	var d declaration
	more := make(chan struct{}) // closed: there is something to declare
	close(more)
	for {
		next := more
		if len(d.left) == 0 {
			q.Log.Declared(d.declared, d.unwanted, d.missing, d.err)
			d.declared, d.unwanted, d.missing, d.err, next = 0, 0, 0, nil, nil
		}
		asked := false
		select {
		case which := <-q.checks: // a task waits for it, perhaps
			asked = q.check(&d, which)
		default:
			select {
			case <-q.Bus.Done():
				return
			case which := <-q.checks:
				asked = q.check(&d, which)
			case <-q.listed.Signal():
				for list, ok := q.listed.Take(); ok; list, ok = q.listed.Take() {
					d.left = append(d.left, list...)
				}
			case <-next:
				asked = q.declareNext(&d)
			}
		}
		if asked && !background.Pause(q.Bus.Done(), DeclarePause) {
			return
		}
	}
}

// declareNext declares the next queue, or passes over it; it reports whether the broker was asked.
func (q *Queues) declareNext(d *declaration) bool {
	queue := d.left[0]
	d.left = d.left[1:]
	agent, wanted := d.agent(q.Config(), queue)
	if q.left.Load() || !wanted {
		d.unwanted++
		return false
	}
	switch exists, err := q.ensure(queue); {
	case err != nil || !exists:
		d.missing++
		if d.err == nil {
			d.err = err
		}
	default:
		d.declared++
		q.Post(coordinator.QueueChecked{Agent: agent, Exists: true})
	}
	return true
}

// check answers one question of the engine; it reports whether the broker was asked.
func (q *Queues) check(d *declaration, which coordinator.EnsureQueue) bool {
	if _, wanted := d.agent(q.Config(), which.Queue); !wanted && !q.belongs(which.Agent) {
		q.Post(coordinator.QueueChecked{Agent: which.Agent}) // it has left meanwhile
		return false
	}
	exists, err := q.ensure(which.Queue)
	q.Log.QueueChecked(which, exists, err)
	q.Post(coordinator.QueueChecked{Agent: which.Agent, Exists: exists && err == nil})
	return true
}

// belongs reports whether the agent is part of the fleet; when the loop does not answer, it may be.
func (q *Queues) belongs(agent coordinator.AgentID) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	has, err := q.HasAgent(ctx, agent)
	return err != nil || has
}

func (q *Queues) ensure(queue string) (exists bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), declareTimeout)
	defer cancel()
	return q.Bus.EnsureQueue(ctx, bus.AgentQueue(q.Profile, queue))
}
