package coalesce

import (
	"sync"
	"time"

	"taskbus/coordinator"
)

const (
	// Window is for how long reports gather before the latest of each task goes on.
	Window = 200 * time.Millisecond
	// PerAgent is of how many tasks of one agent a window has the reports: those of one that names tasks without end
	// cost the others nothing.
	PerAgent = 1024
	// MostBytes is how many bytes the reports of a window take at most.
	MostBytes = 32 << 20
	// overhead is about what a report takes beside its texts, in bytes.
	overhead = 512
)

// Latest are the reports that wait. It is safe for concurrent use.
type Latest struct {
	mu      sync.Mutex
	waiting []*coordinator.Progress // in the order in which their tasks came first
	places  map[place]int           // in waiting
	agents  map[coordinator.AgentID]int
	bytes   int
	some    chan struct{} // capacity 1: there are some since they were taken
}

// place is what one report replaces another of.
type place struct {
	task  coordinator.TaskID
	agent coordinator.AgentID
}

// New returns one without reports.
func New() *Latest {
	l := &Latest{some: make(chan struct{}, 1)}
	l.clear()
	return l
}

// clear empties it. mu is held, or it is new.
func (l *Latest) clear() {
	l.waiting, l.bytes = nil, 0
	l.places, l.agents = make(map[place]int), make(map[coordinator.AgentID]int)
}

// Add takes in a report, in the place of the one before of the same task and agent. It reports false when there is no
// room for it.
func (l *Latest) Add(p *coordinator.Progress) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{p.Task, p.Agent}
	size := sizeOf(p)
	i, again := l.places[at]
	if again {
		size -= sizeOf(l.waiting[i])
	}
	switch {
	case size > 0 && l.bytes+size > MostBytes, !again && l.agents[p.Agent] >= PerAgent:
		return false
	case again:
		l.waiting[i] = p
	default:
		l.places[at] = len(l.waiting)
		l.waiting = append(l.waiting, p)
		l.agents[p.Agent]++
	}
	l.bytes += size
	if len(l.waiting) == 1 && !again {
		select {
		case l.some <- struct{}{}:
		default:
		}
	}
	return true
}

func sizeOf(p *coordinator.Progress) int { return overhead + len(p.Message) + len(p.Data) }

// Each hands on what has gathered, a window after its first report came, until done is closed. pass may take its time:
// more gathers meanwhile.
func (l *Latest) Each(done <-chan struct{}, pass func([]*coordinator.Progress)) {
	timer := time.NewTimer(Window)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-l.some:
		}
		timer.Reset(Window)
		select {
		case <-done:
			return
		case <-timer.C:
		}
		l.mu.Lock()
		latest := l.waiting
		l.clear()
		l.mu.Unlock()
		pass(latest)
	}
}
