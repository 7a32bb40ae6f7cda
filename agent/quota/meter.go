package quota

import (
	"io"
	"sync"
)

// meter passes a provider's answer on, and settles its call at the end.
type meter struct {
	io.ReadCloser
	mu     sync.Mutex
	listen listener
	settle func(*Usage) // nil: it has been
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.mu.Lock()
	if m.settle != nil && m.listen != nil {
		m.listen.hear(p[:n])
	}
	m.mu.Unlock()
	if err != nil {
		m.end(err == io.EOF)
	}
	return n, err
}

// Close also ends a call whose answer was not read to its end.
func (m *meter) Close() error {
	err := m.ReadCloser.Close()
	m.end(false)
	return err
}

// end settles the call once, at what is known of it.
func (m *meter) end(whole bool) {
	m.mu.Lock()
	settle, listen := m.settle, m.listen
	m.settle, m.listen = nil, nil
	var u *Usage
	if settle != nil && listen != nil {
		u = listen.usage(whole)
	}
	m.mu.Unlock()
	if settle != nil {
		settle(u)
	}
}
