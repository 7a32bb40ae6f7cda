package httpapi

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/messages"
)

// capacityTimeout bounds the wait for the broker's confirm: an agent reports every
// ten seconds.
const capacityTimeout = 5 * time.Second

// CapacityReport is the body of PUT /agents/{id}/capacity: BALANCING's.
type CapacityReport struct {
	// Capacity in items a second, messages.MinRate to MaxRate; or 0: the agent does not
	// know (any more), and what is measured counts.
	Capacity float64
	// Pending items, 0 to messages.MaxPending.
	Pending int
}

// TooSoon says that an agent has just reported.
type TooSoon struct {
	// Wait is how long until it may again.
	Wait time.Duration
}

func (t *TooSoon) Error() string { return fmt.Sprintf("reported a moment ago; wait %v", t.Wait) }

// identity decides which agent a client is.
type identity struct {
	secret []byte // empty: no client is one
}

// shown reports whether the request comes from the agent, or answers it. Every
// refusal of a token is the same: it does not say whether there is such an agent.
func (i *identity) shown(w http.ResponseWriter, r *http.Request, agent string) bool {
	if len(i.secret) == 0 {
		web.Problem(w, http.StatusForbidden, "Reports over HTTP are off",
			"This coordinator has no secret to know agents by. Put one of at least 32 characters into a file, name the file "+
				"in TASKBUS_AGENT_SECRET_FILE "+
				"(or put the secret into TASKBUS_AGENT_SECRET), start the coordinator again, and give each agent what `taskbus "+
				"agents token ID` prints. "+
				"Over RabbitMQ agents report with agent.status, which needs none of it.")
		return false
	}
	given, ok := credential.Bearer(r.Header.Values("Authorization"))
	if ok && hmac.Equal([]byte(given), []byte(credential.AgentToken(i.secret, agent))) {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="taskbus agents"`)
	web.Problem(w, http.StatusUnauthorized, "Not authorised",
		"Send one header Authorization: Bearer with the agent's own token, as `taskbus agents token ID` prints it where "+
			"the coordinator's TASKBUS_AGENT_SECRET is known.")
	return false
}

// capacity answers PUT /agents/{id}/capacity.
func (a *api) capacity(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !web.SameOrigin(w, r, a.permission.browsers) {
		return
	}
	if !a.identity.shown(w, r, id) {
		return
	}
	if !messages.ValidID(id) {
		badID(w)
		return
	}
	if !web.Unasked(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
	report, ok := readCapacity(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), capacityTimeout)
	defer cancel()
	err := a.src.ReportCapacity(ctx, id, report)
	var soon *TooSoon
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrNoAgent):
		unknownAgent(w, id)
	case errors.As(err, &soon):
		w.Header().Set(web.RetryAfter, strconv.Itoa(max(1, int(math.Ceil(soon.Wait.Seconds())))))
		web.Problem(w, http.StatusTooManyRequests, "Reported a moment ago",
			"An agent may report its capacity once a second; every ten seconds is enough.")
	default:
		web.Problem(w, http.StatusServiceUnavailable, "Not done",
			"The report may not have reached RabbitMQ: "+messages.Clean(err.Error(), messages.MaxText)+
				". Report again at the usual time; agent.status over RabbitMQ needs no coordinator.")
	}
}

// readCapacity reads the body, or answers the request. Its bounds are those of
// agent.status, as which it is published.
func readCapacity(w http.ResponseWriter, r *http.Request) (report CapacityReport, ok bool) {
	const want = `such as {"capacity_items_per_second": 8.5, "pending_items": 12, "health": "BUSY"}`
	var capacity, pending *float64
	var health *string
	if !web.ReadBody(w, r, want,
		web.Number("capacity_items_per_second", &capacity, false, messages.ValidRate,
			"0 (not known), or a number from 1e-9 to 1000000000"),
		web.Number("pending_items", &pending, true, func(n float64) bool { return n >= 0 && n <= messages.MaxPending },
			"a whole number from 0 to 1000000000"),
		web.Text("health", &health)) {
		return report, false
	}
	switch {
	case capacity == nil:
		web.BadBody(w, want+"; capacity_items_per_second is missing")
	case pending == nil:
		web.BadBody(w, want+"; pending_items is missing")
	case health != nil && !slices.Contains(healthWords, *health):
		web.BadBody(w, want+"; health must be one of "+strings.Join(healthWords, ", ")+", or left out")
	default:
		// The word itself is not heeded: Taskbus judges by the drain time.
		return CapacityReport{Capacity: *capacity, Pending: int(*pending)}, true
	}
	return report, false
}

// healthWords are BALANCING's.
var healthWords = []string{"HEALTHY", "BUSY", "OVERLOADED"}

func unknownAgent(w http.ResponseWriter, id string) {
	web.Problem(w, http.StatusNotFound, "Unknown agent",
		"Agent "+id+
			" is not in the fleet: agents.yaml does not list it, and it has not joined by itself. GET /status lists the agents.")
}
