package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

const (
	// MaxReason bounds the reason of a cancel, in characters.
	MaxReason = 2048
	// maxChangeBody holds a reason of MaxReason characters even if every one of
	// them is written as two \u escapes.
	maxChangeBody = 32 << 10
	// changeTimeout bounds a change, which may wait for an agent's answer. It is
	// below what clients usually wait, so that they hear how it went.
	changeTimeout = 8 * time.Second
)

// Change is one request of a holder of the token, answered.
type Change struct {
	// Method and Path of the request; the path is one of the endpoints' and holds
	// nothing but a valid id.
	Method, Path string
	// Remote is the client's address as the server saw it: that of the last proxy.
	Remote string
	// Status of the answer.
	Status int
}

// permission decides which clients may change something.
type permission struct {
	token credential.Hashed // the admin token
	// browsers refuses what a page of another origin makes a browser send. The
	// token would not be sent along, but that is for two locks to say, not for one.
	browsers *http.CrossOriginProtection
	now      func() time.Time
}

func newPermission(token []byte) *permission {
	return &permission{token: credential.Hash(token), browsers: http.NewCrossOriginProtection(), now: time.Now}
}

// granted reports whether the request may change something, or answers it.
func (p *permission) granted(w http.ResponseWriter, r *http.Request) bool {
	if !web.SameOrigin(w, r, p.browsers) {
		return false
	}
	if !p.token.Given() {
		web.Problem(w, http.StatusForbidden, "Changes are off",
			"This coordinator has no admin token. Put one of at least 32 characters into a file, name the file in "+
				"TASKBUS_ADMIN_TOKEN_FILE "+
				"(or put the token into TASKBUS_ADMIN_TOKEN), start the coordinator again, and send Authorization: Bearer with "+
				"the token.")
		return false
	}
	var detail string
	if len(r.Header.Values(forwardedHeader)) == 0 {
		detail = p.refuse(r.Header.Values("Authorization"))
	} else if !p.signed(w, r, p.now()) {
		detail =
			"What a coordinator forwards must be signed by the admin token that all of them share, less than a minute ago."
	}
	if detail == "" {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="taskbus"`)
	web.Problem(w, http.StatusUnauthorized, "Not authorised", detail)
	return false
}

// refuse says what is wrong with the values of the header Authorization; empty
// when one of them is the token and there is no other.
func (p *permission) refuse(values []string) string {
	const want = "Send one header Authorization: Bearer with the coordinator's admin token (TASKBUS_ADMIN_TOKEN)."
	given, ok := credential.Bearer(values)
	if !ok {
		return want
	}
	if !p.token.Is(given) {
		return "The token is not the coordinator's admin token (TASKBUS_ADMIN_TOKEN); it is read when the coordinator starts."
	}
	return ""
}

// changing puts the permission, the limits and the record before an endpoint that
// changes something of an id, which the coordinator that leads does.
func (a *api) changing(change func(w http.ResponseWriter, r *http.Request, id string)) http.Handler {
	named := a.admin(a.byLeader(func(w http.ResponseWriter, r *http.Request) { change(w, r, r.PathValue("id")) }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.PathValue("id"); messages.ValidID(id) {
			named.ServeHTTP(w, r)
		} else if a.permission.granted(w, r) {
			badID(w)
		}
	})
}

// admin is changing for an endpoint that has no id in its path.
func (a *api) admin(change http.HandlerFunc) http.Handler {
	return a.granted(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{w, http.StatusInternalServerError} // until it has answered
		if a.changed != nil {
			defer func() { a.changed(Change{r.Method, r.URL.Path, r.RemoteAddr, seen.status}) }()
		}
		change(seen, r)
	})
}

// granted puts the permission and the limits of a change before an endpoint.
func (a *api) granted(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.permission.granted(w, r) {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxChangeBody)
		serve(w, r.WithContext(ctx))
	})
}

// statusWriter remembers the status that was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// cancel answers DELETE /tasks/{id}.
func (a *api) cancel(w http.ResponseWriter, r *http.Request, id string) {
	var said *string
	query, err := web.Parameters(r.URL.RawQuery, "reason")
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	if !web.ReadBody(w, r, `nothing or {"reason": "..."}`, web.Text("reason", &said)) {
		return
	}
	reason, given := query["reason"]
	if said != nil {
		if given {
			web.Problem(w, http.StatusBadRequest, "Two reasons",
				"The reason is given in the query and in the body; give it once.")
			return
		}
		reason = *said
	}
	if utf8.RuneCountInString(reason) > MaxReason {
		web.Problem(w, http.StatusBadRequest, "Reason too long",
			fmt.Sprintf("A reason has at most %d characters.", MaxReason))
		return
	}
	c, err := a.src.Cancel(r.Context(), id, messages.Clean(reason, MaxReason*utf8.UTFMax))
	if err != nil {
		web.NotDone(w, err)
		return
	}
	status := http.StatusOK
	if c.State == view.CancelRequested {
		status = http.StatusAccepted // it may still be done
	}
	web.Answer(w, status, c)
}

// order answers POST /agents/{id}/cordon, drain and uncordon.
func (a *api) order(order coordinator.Order) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, id string) {
		if !web.Unasked(w, r) {
			return
		}
		if !web.ReadBody(w, r, "nothing or {}") {
			return
		}
		agent, err := a.src.Order(r.Context(), id, order)
		switch {
		case errors.Is(err, ErrNoAgent):
			unknownAgent(w, id)
		case err != nil:
			web.NotDone(w, err)
		default:
			web.Answer(w, http.StatusOK, agent)
		}
	}
}

// acknowledgeLoss answers POST /journal/acknowledge.
func (a *api) acknowledgeLoss(w http.ResponseWriter, r *http.Request) {
	if !web.Unasked(w, r) || !web.ReadBody(w, r, "nothing or {}") {
		return
	}
	switch err := a.src.AcknowledgeLoss(r.Context()); {
	case errors.Is(err, ErrNothingLost):
		web.Problem(w, http.StatusNotFound, "Nothing lost", messages.Clean(err.Error(), messages.MaxText)+".")
	case err != nil:
		web.NotDone(w, err)
	default:
		web.Answer(w, http.StatusOK, view.LossAcknowledged{Acknowledged: true})
	}
}
