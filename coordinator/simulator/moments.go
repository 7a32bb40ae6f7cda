package simulator

// moment is something that is going to happen in the simulated world. It holds no
// pointer, so that the garbage collector need not look at the heap.
type moment struct {
	at    int64  // nanoseconds since the beginning
	seq   uint64 // order of scheduling, breaks ties of at
	kind  momentKind
	index int32 // workload, agent, or task
	life  uint32
}

type momentKind uint8

const (
	momentArrival momentKind = iota // the next task of the workload
	momentBeat                      // the heartbeat of the agent, in its life
	momentFinish                    // the task is done, if it is still in that life
	momentExpiry                    // the task has not been taken in time
	momentCrash                     // the agent, in its life
	momentRestart
	momentJoin  // the agent comes for the first time
	momentDrift // step index of all steps
	momentLook  // the shell looks at the queues that the engine watches
	momentEnd   // no further arrivals
	momentStop  // whatever is open stays open
)

// moments is a heap, the earliest first: of four children each, which moves less
// than two would.
type moments struct {
	items []moment
	seq   uint64
}

func (a *moment) before(b *moment) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (m *moments) schedule(at int64, kind momentKind, index int32, life uint32) {
	m.seq++
	m.items = append(m.items, moment{at, m.seq, kind, index, life})
	i := len(m.items) - 1
	item := m.items[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !item.before(&m.items[parent]) {
			break
		}
		m.items[i] = m.items[parent]
		i = parent
	}
	m.items[i] = item
}

// next takes out the earliest; there must be one.
func (m *moments) next() moment {
	first := m.items[0]
	last := len(m.items) - 1
	item := m.items[last]
	m.items = m.items[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= last {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, last); c++ {
			if m.items[c].before(&m.items[least]) {
				least = c
			}
		}
		if !m.items[least].before(&item) {
			break
		}
		m.items[i] = m.items[least]
		i = least
	}
	m.items[i] = item
	return first
}
