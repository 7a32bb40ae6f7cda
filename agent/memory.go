package agent

// memory remembers values by key, at most limit of them: the oldest goes first.
type memory[V any] struct {
	limit  int
	values map[string]V
	order  []string // a ring once it is full
	next   int      // place in it of the oldest
}

func (m *memory[V]) get(key string) (V, bool) {
	v, known := m.values[key]
	return v, known
}

// add remembers a value, in place of an earlier one of this key.
func (m *memory[V]) add(key string, value V) {
	if m.values == nil {
		m.values = make(map[string]V)
	}
	if _, known := m.values[key]; !known {
		if len(m.order) < m.limit {
			m.order = append(m.order, key)
		} else {
			delete(m.values, m.order[m.next])
			m.order[m.next] = key
			m.next = (m.next + 1) % m.limit
		}
	}
	m.values[key] = value
}
