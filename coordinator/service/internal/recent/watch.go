package recent

import "taskbus/coordinator"

// Watch is told of what becomes of one task.
type Watch struct {
	// News has something when the task's record has changed since it was last received from: once for many changes.
	News chan struct{}
	of   *Tasks
	key  coordinator.TaskKey
}

// Watch begins to tell of a task, which need not be known yet. The caller stops it.
func (h *Tasks) Watch(id coordinator.TaskID) *Watch {
	w := &Watch{News: make(chan struct{}, 1), of: h, key: coordinator.KeyOf(id)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches == nil {
		h.watches = make(map[coordinator.TaskKey]map[*Watch]struct{})
	}
	if h.watches[w.key] == nil {
		h.watches[w.key] = make(map[*Watch]struct{})
	}
	h.watches[w.key][w] = struct{}{}
	return w
}

// Stop ends it.
func (w *Watch) Stop() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.watches[w.key], w)
	if len(w.of.watches[w.key]) == 0 {
		delete(w.of.watches, w.key)
	}
}

// news tells that a task's record may have changed when h.mu is released, which is held.
func (h *Tasks) news(key coordinator.TaskKey) {
	for w := range h.watches[key] {
		select {
		case w.News <- struct{}{}:
		default: // it has not looked since the change before
		}
	}
}
