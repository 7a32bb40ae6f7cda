package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Options are what New can do without.
type Options struct {
	// LoopbackHosts refuses requests whose Host is neither "localhost" nor a
	// loopback address, whatever the port. Set it when the server is bound to a
	// loopback address: it keeps web pages in the operator's browser from reading
	// the answers by way of a DNS name that they point at 127.0.0.1.
	LoopbackHosts bool
	// Profiles answers below /debug/pprof/; nil means that there is none. Its
	// owner sees to it that only the machine itself can reach it.
	Profiles http.Handler
	// Report is told of a panic in a handler, with the path and the stack. It is
	// called from the request's goroutine; nil means that nobody is told.
	Report func(path string, cause any, stack []byte)
}

// statusTimeout bounds what waits for the broker: the queue depths of /status.
const statusTimeout = 5 * time.Second

// api holds what the handlers answer from.
type api struct {
	src Source
}

// endpoint is one line of the list that / prints.
type endpoint struct {
	path, about string
	serve       http.Handler
}

// New makes the whole interface: every endpoint behind the checks that every
// request must pass. metrics answers /metrics. The handler is safe for
// concurrent use, and no panic leaves it.
func New(src Source, metrics http.Handler, opts Options) http.Handler {
	a := &api{src: src}
	endpoints := []endpoint{
		{"/health", "healthy or degraded (200), critical (503), and the checks behind the word", http.HandlerFunc(a.health)},
		{"/livez", "200 while the process runs, whatever the broker does", http.HandlerFunc(a.livez)},
		{"/readyz", "200 while tasks are being taken, else 503 and the state", http.HandlerFunc(a.readyz)},
		{"/status", "agents, pending tasks, queue depths, counters, configuration, broker", http.HandlerFunc(a.status)},
		{"/metrics", "the same for Prometheus", metrics},
		{"/tasks", "recent tasks, newest first: ?state=" + strings.Join(TaskStates(), "|") + "&agent=ID&limit=1…1000", http.HandlerFunc(a.tasks)},
		{"/tasks/{id}", "what became of one recent task", http.HandlerFunc(a.task)},
		{"/tasks/{id}/explain", "why it went where it went, or why it waits", http.HandlerFunc(a.explain)},
	}
	mux := http.NewServeMux()
	for _, e := range endpoints {
		mux.Handle(e.path, e.serve)
	}
	mux.Handle("/{$}", index(endpoints))
	mux.HandleFunc("/", notFound)
	if opts.Profiles != nil {
		mux.Handle("/debug/pprof/", opts.Profiles)
	}
	return guard(mux, opts)
}

func index(endpoints []endpoint) http.Handler {
	var b strings.Builder
	b.WriteString("Taskbus coordinator. Everything here only reads.\n\n")
	for _, e := range endpoints {
		b.WriteString(e.path + strings.Repeat(" ", 22-len(e.path)) + e.about + "\n")
	}
	text := b.String()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A reader that has gone away is no fault of ours.
		_, _ = w.Write([]byte(text))
	})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	problem(w, http.StatusNotFound, "No such endpoint", "GET / lists the endpoints.")
}

func (a *api) health(w http.ResponseWriter, r *http.Request) {
	h := a.src.Health(r.Context())
	status := http.StatusServiceUnavailable
	if h.Status == Healthy || h.Status == Degraded {
		status = http.StatusOK
	}
	answer(w, status, h)
}

// livez does not ask the source: that it answers at all is the answer.
func (a *api) livez(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Alive bool `json:"alive"`
	}{true})
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	ready := a.src.Ready(r.Context())
	status := http.StatusServiceUnavailable
	if ready.Ready {
		status = http.StatusOK
	}
	answer(w, status, ready)
}

func (a *api) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	s, err := a.src.Status(ctx)
	if err != nil {
		problem(w, http.StatusServiceUnavailable, "Status not available",
			"Collecting the status: "+err.Error()+". Try again; /livez and /readyz answer without it.")
		return
	}
	s.Agents, s.Queues = present(s.Agents), present(s.Queues)
	answer(w, http.StatusOK, s)
}

// present makes an empty list of none, so that it is [] and not null in JSON.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
