package agent

import "container/list"

// memory remembers values by key, at most limit of them and, where bytes is given,
// about so many bytes: the oldest go first.
type memory[V any] struct {
	limit int
	bytes int         // of keys and values together, as size counts them; 0: unbounded
	size  func(V) int // of a value, in bytes; nil with bytes 0

	values map[string]*list.Element // of remembered[V]
	order  list.List                // oldest first
	held   int                      // bytes
}

type remembered[V any] struct {
	key   string
	value V
	size  int
}

// entryOverhead is about what a remembered value takes beside itself: its places in
// the map and in the list.
const entryOverhead = 200

func (m *memory[V]) get(key string) (V, bool) {
	if e, known := m.values[key]; known {
		return e.Value.(remembered[V]).value, true
	}
	var none V
	return none, false
}

// add remembers a value as the newest, in place of an earlier one of this key.
func (m *memory[V]) add(key string, value V) {
	if m.values == nil {
		m.values = make(map[string]*list.Element)
	}
	m.remove(key)
	r := remembered[V]{key: key, value: value}
	if m.bytes > 0 {
		r.size = entryOverhead + len(key) + m.size(value)
	}
	m.values[key] = m.order.PushBack(r)
	m.held += r.size
	for len(m.values) > m.limit || m.held > m.bytes {
		m.remove(m.order.Front().Value.(remembered[V]).key)
	}
}

// remove forgets what is remembered under a key, if anything is.
func (m *memory[V]) remove(key string) {
	e, known := m.values[key]
	if !known {
		return
	}
	m.held -= m.order.Remove(e).(remembered[V]).size
	delete(m.values, key)
}
