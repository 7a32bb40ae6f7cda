package httpapi

import (
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/calls"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
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
	// Report is called with a panic in a handler, with the path and the stack, from the request's
	// goroutine; nil: panics are not reported.
	Report func(path string, cause any, stack []byte)
	// AdminToken is the secret that requests which change something must carry as
	// Authorization: Bearer; no white space in it. New keeps its hash only. Without
	// one every change is refused.
	AdminToken []byte
	// AgentSecret is what the tokens are derived from by which agents report their capacity (see
	// AgentToken). Without one no agent can.
	AgentSecret []byte
	// GatewayToken is the secret of gateways, which may ask for quota on behalf of every agent; no
	// white space in it. New keeps its hash only. GatewayNames are the common names of
	// certificates whose holders may do the same.
	GatewayToken []byte
	GatewayNames []string
	// ProducerToken is the secret by which tasks are submitted and outputs read, as with the admin token; no white
	// space in it. New keeps its hash only.
	ProducerToken []byte
	// PeerToken is the secret by which coordinators know each other: one that stands by forwards to the
	// leader what it is asked about calls. New keeps its hash only; without one none may.
	PeerToken []byte
	// Leader is where the coordinator that leads answers, if this one stands by; empty: this one leads, or
	// it is not known. Changes are forwarded there, signed by the admin token; nil: none are.
	Leader func() string
	// PeerAuthorities are those of the other coordinators' certificates; nil: the system's.
	PeerAuthorities *x509.CertPool
	// LegacyLimitHeaders: answers about calls have RateLimit-Limit, -Remaining and -Reset as well.
	LegacyLimitHeaders bool
	// History of usage; nil: none is kept.
	History History
	// MaxTaskBytes bounds the task of /whatif; 0 means 1 MiB.
	MaxTaskBytes int
	// Changed is called for every request that the token has let through to an endpoint that changes
	// something, after its answer, from the request's goroutine; nil: they are not reported.
	Changed func(Change)
}

// statusTimeout bounds what waits for the broker: the queue depths of /status.
const statusTimeout = 5 * time.Second

// api holds what the handlers answer from.
type api struct {
	src        Source
	permission *permission
	producers  credential.Hashed
	identity   identity
	calls      *calls.Calls
	leader     func() string
	peer       *http.Client // for the leader
	maxTask    int64
	gates      gates
	changed    func(Change)
	history    History
	now        func() time.Time
	// bills are those that are on their way here, reconciling those that are being compared.
	bills, reconciling chan struct{}
}

// New makes the whole interface: every endpoint behind the checks that every
// request must pass. metrics answers /metrics. The handler is safe for
// concurrent use, and no panic leaves it.
func New(src Source, metrics http.Handler, opts Options) http.Handler {
	a := &api{
		src: src, permission: newPermission(opts.AdminToken), producers: credential.Hash(opts.ProducerToken),
		identity: identity{slices.Clone(opts.AgentSecret)},
		maxTask:  defaultMaxTask, gates: newGates(), changed: opts.Changed, history: opts.History,
		bills: make(chan struct{}, mostBills), reconciling: make(chan struct{}, mostReconciling), now: time.Now,
	}
	if a.history == nil {
		a.history = noHistory{}
	}
	a.leader, a.peer = opts.Leader, NewPeers(opts.PeerAuthorities, 0)
	a.calls = calls.New(src, calls.Options{AgentSecret: opts.AgentSecret, GatewayToken: opts.GatewayToken,
		GatewayNames: opts.GatewayNames, PeerToken: opts.PeerToken, LegacyLimitHeaders: opts.LegacyLimitHeaders})
	if opts.MaxTaskBytes > 0 {
		a.maxTask = int64(opts.MaxTaskBytes)
	}
	endpoints := a.endpoints(metrics)
	mux := http.NewServeMux()
	for i := range endpoints {
		mux.Handle(endpoints[i].path, &endpoints[i])
	}
	mux.Handle("/{$}", reading(index(endpoints, a)))
	mux.Handle("/", http.HandlerFunc(elsewhere))
	if opts.Profiles != nil {
		mux.Handle("/debug/pprof/", reading(opts.Profiles))
	}
	return guard(mux, opts)
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
	web.Problem(w, http.StatusNotFound, "No such endpoint", "GET / lists the endpoints.")
}

func (a *api) health(w http.ResponseWriter, r *http.Request) {
	h := a.src.Health(r.Context())
	status := http.StatusServiceUnavailable
	if h.Status == view.Healthy || h.Status == view.Degraded {
		status = http.StatusOK
	}
	web.Answer(w, status, h)
}

// livez does not ask the source: that it answers at all is the answer.
func (a *api) livez(w http.ResponseWriter, _ *http.Request) {
	web.Answer(w, http.StatusOK, struct {
		Alive bool `json:"alive"`
	}{true})
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	ready := a.src.Ready(r.Context())
	status := http.StatusServiceUnavailable
	if ready.Ready {
		status = http.StatusOK
	}
	web.Answer(w, status, ready)
}

// present makes an empty list of none, so that it is [] and not null in JSON.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
