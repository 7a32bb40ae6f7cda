package httpapi

import (
	"net/http"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi/calls"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
)

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

// endpoints are all of them, in the order of the list.
func (a *api) endpoints(metrics http.Handler) []endpoint {
	asked := func(path, about string, serve http.HandlerFunc) endpoint {
		return endpoint{path: path, about: about, read: serve}
	}
	read := func(path, about string, serve http.HandlerFunc) endpoint {
		return asked(path, about, web.Plain(serve))
	}
	// What grows with the fleet, the quotas or the history: see gate.
	g := &a.gates
	order := func(o coordinator.Order, about string) endpoint {
		return endpoint{path: "/agents/{id}/" + o.String(), about: about, method: http.MethodPost,
			change: a.changing(a.order(o))}
	}
	told := func(name string, op coordinator.CallOp, about string) endpoint {
		return endpoint{path: "/v1/quota/" + name, about: "*** POST: " + about, method: http.MethodPost,
			change: a.calls.Post(op)}
	}
	gateway := func(name, about string, change http.Handler) endpoint {
		return endpoint{path: "/v1/quota/" + name, about: about, method: http.MethodGet, change: change}
	}
	return []endpoint{
		read("/openapi.yaml", "this interface as an OpenAPI 3.1 document", openAPI),
		read("/health", "healthy or degraded (200), critical (503), and the checks behind the word", a.health),
		read("/livez", "200 while the process runs, whatever the broker does", a.livez),
		read("/readyz", "200 while tasks are being taken, else 503 and the state", a.readyz),
		read("/status", "agents, pending tasks, queue depths, counters, configuration, broker", g.reads.few(a.status())),
		asked("/metrics", "the same for Prometheus", g.scrapes.few(web.Scraping(metrics))),
		{
			path: "/tasks", about: "recent tasks, newest first: ?state=" + strings.Join(view.TaskStates(), "|") +
				"&agent=ID&limit=1…1000; **** POST submits a task.assign",
			read: g.reads.few(a.tasks), method: http.MethodPost, change: http.HandlerFunc(a.submit),
		},
		{
			path: "/tasks/{id}",
			about: "what became of one recent task: ?wait=0s…60s for its end; " +
				`* DELETE withdraws it, optionally with {"reason": "..."}`,
			read: http.HandlerFunc(a.task), method: http.MethodDelete, change: a.changing(a.cancel),
		},
		read("/tasks/{id}/explain", "why it went where it went, or why it waits; and how it would be decided now",
			g.reads.few(a.explain)),
		{
			path: "/whatif", about: "POST a task.assign: how it would be decided now; nothing is assigned or kept",
			method: http.MethodPost, change: http.HandlerFunc(a.whatIf),
		},
		{
			path: "/dead", about: "* what is in task.dead: ?reason=CODE&type=TYPE&id=TASK&limit=1…1000",
			read: a.permitted(a.dead),
		},
		{path: "/dead/{id}", about: "* one message of it, by its key: ?payload=true shows all of it",
			read: a.permitted(a.deadOne)},
		{
			path: "/dead/resend", about: `* POST publishes messages of task.dead anew: {"keys": ["3f2a09c1d4e5b678"]}`,
			method: http.MethodPost, change: a.admin(a.byLeader(a.deadOrder(Source.ResendDead))),
		},
		{
			path: "/dead/drop", about: "* POST takes them out of it for good: likewise",
			method: http.MethodPost, change: a.admin(a.byLeader(a.deadOrder(Source.DropDead))),
		},
		read("/capabilities", "demand, supply and bus factor of every capability", g.reads.few(a.capabilities())),
		asked("/v1/quota", "all LLM quotas: limits, what is used, borrowed and lent, and what waits: ?limit=1…100000&after=",
			a.quotas),
		read("/v1/quota/nodes/{id...}", "one node of the quota trees, such as pool/team-a", a.quotaNode()),
		{
			path: "/v1/quota/groups/{id}",
			about: "a group with its agents, in every tree; * PUT registers one with the keys of groups[] in quotas.yaml, " +
				"DELETE removes it: ?by=&reason=",
			read: g.larges.few(web.Plain(a.quotaGroup())), method: http.MethodPut, change: a.changing(a.register(false)),
			remove: a.changing(a.unregister(false)),
		},
		{
			path: "/v1/quota/agents/{id}",
			about: "an agent's own quota, and its group's; * PUT registers one with the keys of agents[], DELETE removes " +
				"it: ?by=&reason=",
			read: web.Plain(a.quotaAgent()), method: http.MethodPut, change: a.changing(a.register(true)),
			remove: a.changing(a.unregister(true)),
		},
		{
			path:  "/v1/quota/controls",
			about: `standing changes to quotas.yaml; * POST makes some: {"node": "pool/team-a", "set": {"weight": 5}}`,
			read:  g.reads.few(web.Plain(a.controls())), method: http.MethodPost, change: a.admin(a.byLeader(a.control)),
		},
		{
			path: "/v1/quota/controls/{id}", about: "* DELETE ends a standing change",
			method: http.MethodDelete, change: a.changing(a.uncontrol),
		},
		read("/v1/quota/providers/{id}", "all nodes of a provider's tree", g.larges.few(a.quotaProvider())),
		asked("/v1/quota/explain",
			"whether there is quota now, and which limit binds: ?group=&agent=&provider=&model=&task_type=&requests=&"+
				"input_tokens=&output_tokens=&cost_usd=&allow_borrowing=", a.explainQuota),
		told("reserve", coordinator.CallReserve, "sets quota aside for an LLM call"),
		told("extend", coordinator.CallExtend, "sets more aside for it, or for longer"),
		told("settle", coordinator.CallSettle, "tells what it has used"),
		told("release", coordinator.CallRelease, "tells that it has used nothing"),
		told("consume", coordinator.CallConsume, "reserve and settle in one"),
		told("charge", coordinator.CallCharge,
			"tells of a call that was made without asking: it is charged whatever the limits"),
		told("check", coordinator.CallCheck, "whether there would be quota now"),
		{
			path: calls.ForwardPath, about: "*** POST: for other coordinators, which forward what they are asked while this " +
				"one leads",
			method: http.MethodPost, change: http.HandlerFunc(a.calls.Forwarded),
		},
		gateway("auth", "*** for nginx's auth_request: sets quota aside by the headers X-Quota-*, or says no with 403",
			a.calls.Authenticate()),
		gateway("auth/settle", "*** for nginx's post_action: tells what the call has used", a.calls.AuthSettled()),
		asked("/v1/quota/history",
			"what was used by day, group, agent and model: "+
				"?group=&agent=&provider=&model=&from=&to=&by=day|month|total&limit=1…100000", g.past.few(a.usageHistory)),
		asked("/v1/quota/cost",
			"what it has cost, by group, agent and model: the parameters of /v1/quota/history, but for by", g.past.few(a.cost)),
		asked("/v1/quota/forecast",
			"what will be used of every budget by the end of its period, and whether and when it overruns: ?node=&limit=",
			g.past.few(a.forecast)),
		{
			path: "/v1/quota/reconcile", method: http.MethodPost, change: http.HandlerFunc(a.reconcile),
			about: "POST a provider's bill as CSV: where it differs from the history; nothing is kept: ?by=day|month|total&" +
				"from=&to=&provider=&columns=&models=&agents=&groups=&tolerance_percent=&tolerance_tokens=&tolerance_requests=&" +
				"tolerance_usd=",
		},
		{
			path:   "/v1/quota/history/rebuild",
			about:  "* POST: the history is made anew from the journal, as far as that reaches back",
			method: http.MethodPost, change: a.admin(a.rebuildHistory),
		},
		{
			path: "/journal/acknowledge", about: "* POST: that the journal was lost is known; no instance reports it any more",
			method: http.MethodPost, change: a.admin(a.acknowledgeLoss),
		},
		read("/agents/stats", "capacity, pending work, health and success of every agent and of the whole",
			g.reads.few(a.agentStats())),
		{
			path: "/agents/{id}/capacity", method: http.MethodPut, change: http.HandlerFunc(a.capacity),
			about: "** PUT: an agent reports its capacity and pending items",
		},
		order(coordinator.OrderCordon, "* POST: no new work for this agent"),
		order(coordinator.OrderDrain,
			"* POST: no new work, what waits in its queue goes elsewhere, what it runs it finishes"),
		order(coordinator.OrderUncordon, "* POST: it gets work again; ends cordon and drain"),
	}
}

// index lists the endpoints of a.
func index(endpoints []endpoint, a *api) http.Handler {
	var b strings.Builder
	b.WriteString("Taskbus coordinator. Everything here only reads, but for what is marked with *, ** and so on.\n")
	if a.permission.token.Given() {
		b.WriteString("* changes something and needs Authorization: Bearer with the admin token.\n")
	} else {
		b.WriteString("* changes something and is off: no admin token is set (TASKBUS_ADMIN_TOKEN_FILE).\n")
	}
	if len(a.identity.secret) > 0 {
		b.WriteString("** needs Authorization: Bearer with the agent's own token.\n")
	} else {
		b.WriteString("** is off: no secret to know agents by is set (TASKBUS_AGENT_SECRET_FILE).\n")
	}
	b.WriteString("*** needs the agent's own token or certificate, or a gateway's (TASKBUS_GATEWAY_TOKEN_FILE).\n")
	b.WriteString("**** needs the producers' token (TASKBUS_PRODUCER_TOKEN_FILE) or the admin token.\n\n")
	widest := 0
	for _, e := range endpoints {
		widest = max(widest, len(e.path))
	}
	for _, e := range endpoints {
		b.WriteString(e.path + strings.Repeat(" ", widest+2-len(e.path)) + e.about + "\n")
	}
	text := b.String()
	return web.Plain(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A reader that has gone away is no fault of ours.
		_, _ = w.Write([]byte(text))
	})
}
