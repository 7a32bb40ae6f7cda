package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
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
	// AdminToken is the secret that requests which change something must carry as
	// Authorization: Bearer; no white space in it. New keeps its hash only. Without
	// one every change is refused.
	AdminToken []byte
	// AgentSecret is what the tokens are derived from by which agents report their
	// capacity (see AgentToken). Without one nobody can.
	AgentSecret []byte
	// GatewayToken is the secret of gateways, which may ask for quota on behalf of every agent; no
	// white space in it. New keeps its hash only. GatewayNames are the common names of
	// certificates whose holders may do the same.
	GatewayToken []byte
	GatewayNames []string
	// PeerToken is the secret by which coordinators know each other: one that stands by forwards
	// to the leader what it is asked about calls. New keeps its hash only; without one nobody may.
	PeerToken []byte
	// Leader is where the coordinator that leads answers, if this one stands by; empty: this one
	// leads, or nobody knows. Changes are forwarded there, signed by the admin token; nil: none are.
	Leader func() string
	// PeerAuthorities are those of the other coordinators' certificates; nil: the system's.
	PeerAuthorities *x509.CertPool
	// LegacyLimitHeaders: answers about calls have RateLimit-Limit, -Remaining and -Reset as well.
	LegacyLimitHeaders bool
	// History of usage; nil: none is kept.
	History History
	// MaxTaskBytes bounds the task of /whatif; 0 means 1 MiB.
	MaxTaskBytes int
	// Changed is told of every request that the token has let through to an
	// endpoint that changes something, after its answer. It is called from the
	// request's goroutine; nil means that nobody is told.
	Changed func(Change)
}

// statusTimeout bounds what waits for the broker: the queue depths of /status.
const statusTimeout = 5 * time.Second

// api holds what the handlers answer from.
type api struct {
	src        Source
	permission *permission
	identity   identity
	callers    *callers
	peers      credential.Hashed // of other coordinators
	leader     func() string
	peer       *http.Client // for the leader
	maxTask    int64
	// calls numbers the reservations that this process gives an id to; prefix tells them from those
	// of others.
	numbered atomic.Uint64
	prefix   string
	changed  func(Change)
	history  History
	now      func() time.Time
	// answers are for those who ask about calls with POST, nginxAnswers for those with headers alone.
	answers, nginxAnswers answering
	// bills are those that are on their way here, reconciling those that are being compared.
	bills, reconciling chan struct{}
}

// endpoint is one path, and one line of the list that / prints.
type endpoint struct {
	path, about string
	// read answers GET and HEAD; nil when the path cannot be read.
	read http.Handler
	// change answers method, which changes something or asks with a body; nil when
	// there is none.
	method string
	change http.Handler
	// remove answers DELETE where there is another change; nil when there is none.
	remove http.Handler
}

// allow lists the methods of the path.
func (e *endpoint) allow() string {
	switch {
	case e.change == nil:
		return readMethods
	case e.read == nil:
		return e.method
	case e.remove != nil:
		return readMethods + ", " + e.method + ", " + http.MethodDelete
	default:
		return readMethods + ", " + e.method
	}
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case e.change != nil && r.Method == e.method:
		e.change.ServeHTTP(w, r)
	case e.remove != nil && r.Method == http.MethodDelete:
		e.remove.ServeHTTP(w, r)
	case e.read != nil && reads(r):
		reading(e.read).ServeHTTP(w, r)
	default:
		notAllowed(w, e.allow())
	}
}

// New makes the whole interface: every endpoint behind the checks that every
// request must pass. metrics answers /metrics. The handler is safe for
// concurrent use, and no panic leaves it.
func New(src Source, metrics http.Handler, opts Options) http.Handler {
	a := &api{
		src: src, permission: newPermission(opts.AdminToken), identity: identity{slices.Clone(opts.AgentSecret)},
		maxTask: defaultMaxTask, changed: opts.Changed, prefix: "r-" + strings.ToLower(rand.Text()[:13]) + "-", history: opts.History,
		bills: make(chan struct{}, mostBills), reconciling: make(chan struct{}, mostReconciling), now: time.Now,
	}
	if a.history == nil {
		a.history = noHistory{}
	}
	a.peers = credential.Hash(opts.PeerToken)
	a.leader, a.peer = opts.Leader, NewPeers(opts.PeerAuthorities, 0)
	plain := callAnswers{legacy: opts.LegacyLimitHeaders}
	a.answers, a.nginxAnswers = plain, authAnswers{plain}
	a.callers = newCallers(a.identity, opts.GatewayToken, opts.GatewayNames)
	if opts.MaxTaskBytes > 0 {
		a.maxTask = int64(opts.MaxTaskBytes)
	}
	endpoints := a.endpoints(metrics)
	mux := http.NewServeMux()
	for i := range endpoints {
		mux.Handle(endpoints[i].path, &endpoints[i])
	}
	mux.Handle("/{$}", reading(index(endpoints, a.permission.token.Given(), len(a.identity.secret) > 0)))
	mux.Handle("/", http.HandlerFunc(elsewhere))
	if opts.Profiles != nil {
		mux.Handle("/debug/pprof/", reading(opts.Profiles))
	}
	return guard(mux, opts)
}

func (a *api) endpoints(metrics http.Handler) []endpoint {
	asked := func(path, about string, serve http.HandlerFunc) endpoint {
		return endpoint{path: path, about: about, read: serve}
	}
	read := func(path, about string, serve http.HandlerFunc) endpoint {
		return asked(path, about, plain(serve))
	}
	order := func(o coordinator.Order, about string) endpoint {
		return endpoint{path: "/agents/{id}/" + o.String(), about: about, method: http.MethodPost, change: a.changing(a.order(o))}
	}
	told := func(name string, op coordinator.CallOp, about string) endpoint {
		return endpoint{path: "/v1/quota/" + name, about: "*** POST: " + about, method: http.MethodPost, change: a.calls(op)}
	}
	gateway := func(name, about string, change http.Handler) endpoint {
		return endpoint{path: "/v1/quota/" + name, about: about, method: http.MethodGet, change: change}
	}
	return []endpoint{
		read("/openapi.yaml", "this interface as an OpenAPI 3.1 document", openAPI),
		read("/health", "healthy or degraded (200), critical (503), and the checks behind the word", a.health),
		read("/livez", "200 while the process runs, whatever the broker does", a.livez),
		read("/readyz", "200 while tasks are being taken, else 503 and the state", a.readyz),
		read("/status", "agents, pending tasks, queue depths, counters, configuration, broker", a.status),
		asked("/metrics", "the same for Prometheus", scraping(metrics)),
		asked("/tasks", "recent tasks, newest first: ?state="+strings.Join(TaskStates(), "|")+"&agent=ID&limit=1…1000", a.tasks),
		{
			path: "/tasks/{id}", about: `what became of one recent task; * DELETE withdraws it, optionally with {"reason": "..."}`,
			read: plain(a.task), method: http.MethodDelete, change: a.changing(a.cancel),
		},
		read("/tasks/{id}/explain", "why it went where it went, or why it waits; and how it would be decided now", a.explain),
		{
			path: "/whatif", about: "POST a task.assign: how it would be decided now; nothing is assigned or kept",
			method: http.MethodPost, change: http.HandlerFunc(a.whatIf),
		},
		read("/capabilities", "demand, supply and bus factor of every capability", a.capabilities),
		asked("/v1/quota", "all LLM quotas: limits, what is used, borrowed and lent; who waits: ?limit=1…100000", a.quotas),
		read("/v1/quota/nodes/{id...}", "one node of the quota trees, such as pool/team-a", a.quotaNode()),
		{
			path: "/v1/quota/groups/{id}", about: "a group with its agents, in every tree; * PUT registers one with the keys of groups[] in quotas.yaml, DELETE removes it: ?by=&reason=",
			read: plain(a.quotaGroup()), method: http.MethodPut, change: a.changing(a.register(false)), remove: a.changing(a.unregister(false)),
		},
		{
			path: "/v1/quota/agents/{id}", about: "an agent's own quota, and its group's; * PUT registers one with the keys of agents[], DELETE removes it: ?by=&reason=",
			read: plain(a.quotaAgent()), method: http.MethodPut, change: a.changing(a.register(true)), remove: a.changing(a.unregister(true)),
		},
		{
			path: "/v1/quota/controls", about: `standing changes to quotas.yaml; * POST makes some: {"node": "pool/team-a", "set": {"weight": 5}}`,
			read: plain(a.controls), method: http.MethodPost, change: a.admin(a.byLeader(a.control)),
		},
		{
			path: "/v1/quota/controls/{id}", about: "* DELETE ends a standing change",
			method: http.MethodDelete, change: a.changing(a.uncontrol),
		},
		read("/v1/quota/providers/{id}", "all nodes of a provider's tree", a.quotaProvider()),
		asked("/v1/quota/explain", "whether there is quota now, and which limit binds: ?group=&agent=&provider=&model=&task_type=&requests=&input_tokens=&output_tokens=&cost_usd=&allow_borrowing=", a.explainQuota),
		told("reserve", coordinator.CallReserve, "sets quota aside for an LLM call"),
		told("extend", coordinator.CallExtend, "sets more aside for it, or for longer"),
		told("settle", coordinator.CallSettle, "tells what it has used"),
		told("release", coordinator.CallRelease, "tells that it has used nothing"),
		told("consume", coordinator.CallConsume, "reserve and settle in one"),
		told("charge", coordinator.CallCharge, "tells of a call that was made without asking: it is charged whatever the limits"),
		told("check", coordinator.CallCheck, "whether there would be quota now"),
		{
			path: ForwardPath, about: "*** POST: for other coordinators, which forward what they are asked while this one leads",
			method: http.MethodPost, change: http.HandlerFunc(a.forwarded),
		},
		gateway("auth", "*** for nginx's auth_request: sets quota aside by the headers X-Quota-*, or says no with 403", a.authenticate()),
		gateway("auth/settle", "*** for nginx's post_action: tells what the call has used", a.authSettled()),
		asked("/v1/quota/history", "what was used by day, group, agent and model: ?group=&agent=&provider=&model=&from=&to=&by=day|month|total&limit=1…100000", a.usageHistory),
		asked("/v1/quota/cost", "what it has cost, by group, agent and model: the parameters of /v1/quota/history, but for by", a.cost),
		asked("/v1/quota/forecast", "what will be used of every budget by the end of its period, and whether and when it overruns: ?node=&limit=", a.forecast),
		{
			path: "/v1/quota/reconcile", method: http.MethodPost, change: http.HandlerFunc(a.reconcile),
			about: "POST a provider's bill as CSV: where it differs from the history; nothing is kept: ?by=day|month|total&from=&to=&provider=&columns=&models=&agents=&groups=&tolerance_percent=&tolerance_tokens=&tolerance_requests=&tolerance_usd=",
		},
		{
			path: "/v1/quota/history/rebuild", about: "* POST: the history is made anew from the journal, as far as that reaches back",
			method: http.MethodPost, change: a.admin(a.rebuildHistory),
		},
		read("/agents/stats", "capacity, pending work, health and success of every agent and of the whole", a.agentStats),
		{
			path: "/agents/{id}/capacity", method: http.MethodPut, change: http.HandlerFunc(a.capacity),
			about: "** PUT: an agent reports its capacity and pending items",
		},
		order(coordinator.OrderCordon, "* POST: no new work for this agent"),
		order(coordinator.OrderDrain, "* POST: no new work, what waits in its queue goes elsewhere, what it runs it finishes"),
		order(coordinator.OrderUncordon, "* POST: it gets work again; ends cordon and drain"),
	}
}

// index lists the endpoints. changes tells whether anything can be changed, reports
// whether agents can report here.
func index(endpoints []endpoint, changes, reports bool) http.Handler {
	var b strings.Builder
	b.WriteString("Taskbus coordinator. Everything here only reads, but for what is marked with *, ** or ***.\n")
	if changes {
		b.WriteString("* changes something and needs Authorization: Bearer with the admin token.\n")
	} else {
		b.WriteString("* changes something and is off: no admin token is set (TASKBUS_ADMIN_TOKEN_FILE).\n")
	}
	if reports {
		b.WriteString("** needs Authorization: Bearer with the agent's own token.\n")
	} else {
		b.WriteString("** is off: no secret to know agents by is set (TASKBUS_AGENT_SECRET_FILE).\n")
	}
	b.WriteString("*** needs the agent's own token or certificate, or a gateway's (TASKBUS_GATEWAY_TOKEN_FILE).\n\n")
	widest := 0
	for _, e := range endpoints {
		widest = max(widest, len(e.path))
	}
	for _, e := range endpoints {
		b.WriteString(e.path + strings.Repeat(" ", widest+2-len(e.path)) + e.about + "\n")
	}
	text := b.String()
	return plain(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A reader that has gone away is no fault of ours.
		_, _ = w.Write([]byte(text))
	})
}

// elsewhere answers what is no path of an endpoint. The mux takes a %2F that stands
// where an id should for the end of the path, so that this comes here as well.
func elsewhere(w http.ResponseWriter, r *http.Request) {
	for segment := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
		if strings.EqualFold(segment, "%2F") {
			badID(w)
			return
		}
	}
	reading(http.HandlerFunc(notFound)).ServeHTTP(w, r)
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
