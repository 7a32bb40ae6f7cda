package calls

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/internal/web"
)

// Options are what New can do without.
type Options struct {
	// AgentSecret is what the tokens of agents are derived from; without it agents have none.
	AgentSecret []byte
	// GatewayToken is the secret of gateways, GatewayNames the common names of their certificates.
	GatewayToken []byte
	GatewayNames []string
	// PeerToken is the secret by which coordinators know each other.
	PeerToken []byte
	// LegacyLimitHeaders: answers have RateLimit-Limit, -Remaining and -Reset as well.
	LegacyLimitHeaders bool
}

// Source answers what is asked about calls: see httpapi.Source.
type Source interface {
	AskCalls(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)
	AskLeader(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)
}

// Calls serves the endpoints of calls.
type Calls struct {
	src      Source
	browsers *http.CrossOriginProtection
	callers  callers
	peers    credential.Hashed // of other coordinators
	// prefix and numbered make the ids of reservations that are given none; prefix tells them from those
	// of other processes.
	prefix   string
	numbered atomic.Uint64
	// answers are for requests with POST, nginxAnswers for those with headers alone.
	answers, nginxAnswers answering
}

// New returns what serves calls from src.
func New(src Source, opts Options) *Calls {
	plain := callAnswers{legacy: opts.LegacyLimitHeaders}
	return &Calls{
		src: src, browsers: http.NewCrossOriginProtection(), peers: credential.Hash(opts.PeerToken),
		callers: callers{secret: slices.Clone(opts.AgentSecret),
			gateways: gateway.NewRoster(opts.GatewayToken, opts.GatewayNames)},
		prefix: "r-" + strings.ToLower(rand.Text()[:13]) + "-", answers: plain, nginxAnswers: authAnswers{plain},
	}
}

// callTimeout bounds the wait for an answer about a call: until it is in the journal.
const callTimeout = 5 * time.Second

// MaxCallBody bounds what is said about one call.
const MaxCallBody = 8 << 10

// Post answers POST /v1/quota/reserve and its siblings.
func (c *Calls) Post(op coordinator.CallOp) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.SameOrigin(w, r, c.browsers) {
			return
		}
		if !isJSON(r) {
			web.Problem(w, http.StatusUnsupportedMediaType, "Not JSON", "Send the body as Content-Type: application/json.")
			return
		}
		if !web.Unasked(w, r) {
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxCallBody)
		var said callRequest
		if !said.read(w, r, op) {
			return
		}
		who, ok := c.callers.of(w, r, said.agent)
		if !ok {
			return
		}
		call, id, ok := c.callOf(w, who, op, &said)
		if !ok {
			return
		}
		c.ask(w, r, call, id, c.answers)
	})
}

// answering is how what was asked about a call is answered, by the contract of its endpoint.
type answering interface {
	granted(w http.ResponseWriter, id string, call *coordinator.Call, x *coordinator.CallAnswer)
	refused(w http.ResponseWriter, id string, call *coordinator.Call, x *coordinator.CallAnswer)
	problem(w http.ResponseWriter, status int, title, detail string)
}

// ask has the service answer about a call.
func (c *Calls) ask(w http.ResponseWriter, r *http.Request, call coordinator.Call, id string, how answering) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	answers, err := c.src.AskCalls(ctx, []coordinator.Call{call})
	switch {
	case errors.Is(err, gateway.ErrCallsBusy):
		how.problem(w, http.StatusServiceUnavailable, "Busy", "Nothing was done: "+err.Error()+"; try again in a second.")
		return
	case err != nil:
		how.problem(w, http.StatusServiceUnavailable, "Not answered",
			gateway.WhyUnanswered(err)+". Ask again with the same reservation_id: what was done already is not done twice.")
		return
	}
	answerAsked(w, id, &call, &answers[0], how)
}

// answerAsked answers with what the engine has said about a call.
func answerAsked(w http.ResponseWriter, id string, call *coordinator.Call, x *coordinator.CallAnswer, how answering) {
	switch x.State {
	case coordinator.CallGranted:
		how.granted(w, id, call, x)
	case coordinator.CallUnknown:
		how.problem(w, http.StatusNotFound, "Unknown reservation", "There is no reservation "+id+
			" of this agent (any more): it was never made, or ended more than a minute ago, or no quota concerned it.")
	case coordinator.CallEnded:
		how.problem(w, http.StatusConflict, "Reservation has ended", "The reservation "+id+
			" has been settled, released or has expired before; nothing has changed.")
	case coordinator.CallDoubted:
		detail := "Nothing was charged or set aside: " + x.Lacks.Text + "."
		if call.OwnOnly {
			detail += " A client with the gateways' token may report more."
		}
		how.problem(w, http.StatusUnprocessableEntity, "Beyond belief", detail)
	case coordinator.CallTaken:
		how.problem(w, http.StatusConflict, "Id is taken",
			"The id "+id+
				" stands for another call, or was asked for with another body, and nothing has changed: ask again with the "+
				"same, settle or release what stands, or give this call an id of its own.")
	case coordinator.CallUnlisted:
		status, title := http.StatusBadRequest, "Call without an owner"
		if call.OwnOnly {
			status, title = http.StatusForbidden, "Agent is not listed"
		}
		how.problem(w, status, title, "Nothing was done: "+x.Lacks.Text+".")
	case coordinator.CallForeign:
		how.problem(w, http.StatusForbidden, "Not its group", "Agent "+string(x.Agent)+
			" does not belong to the group that it names; leave group_id out, or list the agent in quotas.yaml.")
	default:
		how.refused(w, id, call, x)
	}
}

// callAnswers answers requests with POST.
type callAnswers struct {
	legacy bool // limits are told with the headers of the older draft as well
}

func (callAnswers) problem(w http.ResponseWriter, status int, title, detail string) {
	web.Problem(w, status, title, detail)
}

func (c callAnswers) granted(w http.ResponseWriter, id string, call *coordinator.Call, x *coordinator.CallAnswer) {
	gateway.RateLimits(w.Header(), x, call.Key, c.legacy)
	answerCall(w, http.StatusOK, callAnswerOf(id, call.Op, x))
}

func (c callAnswers) refused(w http.ResponseWriter, id string, call *coordinator.Call, x *coordinator.CallAnswer) {
	gateway.RateLimits(w.Header(), x, call.Key, c.legacy)
	quotaExceeded(w, id, call.Key, x)
}

// quotaExceeded answers what a limit refuses: with 429, and what none ever has room for with 422.
func quotaExceeded(w http.ResponseWriter, id string, key coordinator.TaskKey, x *coordinator.CallAnswer) {
	status := http.StatusTooManyRequests
	if x.State == coordinator.CallNever {
		status = http.StatusUnprocessableEntity
	} else {
		gateway.RetryAfter(w.Header(), x, key)
	}
	p := gateway.QuotaRefusal(status, id, x)
	web.Refuse(w, status, p.Title, p)
}

// callOf makes of what was said about a call what the engine is asked. The id is what it is answered
// with, empty for a check.
func (c *Calls) callOf(w http.ResponseWriter, who caller, op coordinator.CallOp, said *callRequest) (coordinator.Call,
	string, bool) {
	agent := coordinator.AgentID(said.agent)
	switch { // what is said counts for gateways
	case who.agent != "" && agent != "" && agent != who.agent:
		web.Problem(w, http.StatusForbidden, "Another agent", "The token, or the certificate, is that of agent "+
			string(who.agent)+"; an agent cannot use another's quota.")
		return coordinator.Call{}, "", false
	case who.agent != "":
		agent = who.agent
	case !existing(op) && !said.concerns(): // it would be the pool's, for no group
		web.Problem(w, http.StatusBadRequest, "Call without an owner",
			"Nothing was done: the question names no agent, group, provider or model. "+
				"Say whose call it is, or of what: by agent_id, group_id, provider, model or alternatives, "+callExample(op)+
				"; with headers by X-Quota-Agent, -Group, -Provider or -Model.")
		return coordinator.Call{}, "", false
	}
	id, keep := said.id, true
	if id == "" {
		id, keep = c.newReservation(), false
	}
	call := coordinator.Call{
		Op: op, Key: coordinator.CallKey(agent, id), Keep: keep || op == coordinator.CallReserve, Agent: agent,
		Group: said.group, OwnOnly: who.agent != "",
		Operation: said.operation, Usage: said.usage, Meant: said.meant, Seats: said.seats, NoBorrowing: said.noBorrowing,
		Priority: said.priority, TTL: said.ttl, ChargeUntold: said.chargeUntold,
		Routes: said.routes, Heard: said.heard,
	}
	if keep && !existing(op) && op != coordinator.CallCheck {
		call.Asked = call.HashAsked()
	}
	if op == coordinator.CallCheck {
		id = "" // nothing is made under it
	}
	return call, id, true
}

// newReservation is an id that was not used before.
func (c *Calls) newReservation() string {
	return c.prefix + strconv.FormatUint(c.numbered.Add(1), 10)
}
