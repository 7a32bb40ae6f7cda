package calls

import (
	"crypto/subtle"
	"net/http"
	"sync"
	"sync/atomic"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/messages"
)

// caller is the client that asks for quota: one agent, with its own token, or (empty) a gateway, which asks
// for all agents, because it authenticates them itself.
type caller struct{ agent coordinator.AgentID }

// agentHeader is where a caller says which agent it is, if the body does not.
const agentHeader = "X-Quota-Agent"

// callers decides which agents a client may ask for.
type callers struct {
	secret   []byte // of agents; empty: no client is one
	gateways *gateway.Roster
	// tokens are those of agents that have shown theirs: to make one takes longer than all else
	// about a call.
	tokens sync.Map // agent → token
	known  atomic.Int64
}

// maxTokens bounds how many tokens are kept.
const maxTokens = 1 << 14

// tokenOf is the agent's token.
func (c *callers) tokenOf(agent string) string {
	if token, ok := c.tokens.Load(agent); ok {
		return token.(string)
	}
	return credential.AgentToken(c.secret, agent)
}

// keep keeps the token of an agent that has shown it.
func (c *callers) keep(agent, token string) {
	if _, kept := c.tokens.Load(agent); kept || c.known.Load() >= maxTokens {
		return
	}
	if _, kept := c.tokens.LoadOrStore(agent, token); !kept {
		c.known.Add(1)
	}
}

// of returns the caller, or answers the request. An agent shows its certificate, whose common name is
// its id, or sends its own token and says which agent it is: in X-Quota-Agent, or else named, as
// its request does. A gateway shows its certificate, or sends the gateways' token. Every refusal
// of a token is the same: it does not say whether there is such an agent.
func (c *callers) of(w http.ResponseWriter, r *http.Request, named string) (caller, bool) {
	if who, ok := c.shown(r, named); ok {
		return who, true
	}
	if !c.gateways.Known() && len(c.secret) == 0 && r.TLS == nil {
		web.Problem(w, http.StatusForbidden, "Calls are off",
			"No client may ask this coordinator for quota yet: set TASKBUS_AGENT_SECRET_FILE (each agent has a token then, "+
				"`taskbus agents token ID`), "+
				"TASKBUS_GATEWAY_TOKEN_FILE for gateways, or certificates; docs/howto/gateways.md says how.")
		return caller{}, false
	}
	if _, given := credential.Bearer(r.Header["Authorization"]); given && named == "" && r.Header.Get(agentHeader) == "" {
		web.Problem(w, http.StatusBadRequest, "No agent_id",
			"Nothing was done: say in agent_id, or in the header X-Quota-Agent, which agent the token is of. (A gateway "+
				"sends the gateways' token, and needs none.)")
		return caller{}, false
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="taskbus quota"`)
	web.Problem(w, http.StatusUnauthorized, "Not authorised",
		"Send one header Authorization: Bearer with the agent's own token (`taskbus agents token ID`) and its id in "+
			"agent_id or X-Quota-Agent, or the gateways' token, or a certificate with the agent's id as its common name.")
	return caller{}, false
}

// shown returns the caller that the request proves.
func (c *callers) shown(r *http.Request, named string) (caller, bool) {
	if c.gateways.Shown(r.Header["Authorization"], r.TLS) {
		return caller{}, true
	}
	if name, ok := credential.Certified(r.TLS); ok {
		return caller{coordinator.AgentID(name)}, messages.ValidID(name)
	}
	given, ok := credential.Bearer(r.Header["Authorization"])
	agent := r.Header.Get(agentHeader)
	if agent == "" {
		agent = named
	}
	if !ok || len(c.secret) == 0 || !messages.ValidID(agent) {
		return caller{}, false
	}
	token := c.tokenOf(agent)
	if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
		return caller{}, false
	}
	c.keep(agent, token)
	return caller{coordinator.AgentID(agent)}, true
}
