package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"taskbus/coordinator"
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

// permission decides who may change something.
type permission struct {
	// token is the hash of the admin token; on is false when there is none.
	token [sha256.Size]byte
	on    bool
	// browsers refuses what a page of another origin makes a browser send. The
	// token would not be sent along, but that is for two locks to say, not for one.
	browsers *http.CrossOriginProtection
}

func newPermission(token []byte) *permission {
	return &permission{token: sha256.Sum256(token), on: len(token) > 0, browsers: http.NewCrossOriginProtection()}
}

// granted tells whether the request may change something, or answers it.
func (p *permission) granted(w http.ResponseWriter, r *http.Request) bool {
	if err := p.browsers.Check(r); err != nil {
		crossOrigin(w)
		return false
	}
	if !p.on {
		problem(w, http.StatusForbidden, "Changes are off",
			"This coordinator has no admin token. Put one of at least 32 characters into a file, name the file in TASKBUS_ADMIN_TOKEN_FILE "+
				"(or put the token into TASKBUS_ADMIN_TOKEN), start the coordinator again, and send Authorization: Bearer with the token.")
		return false
	}
	detail := p.refuse(r.Header.Values("Authorization"))
	if detail == "" {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="taskbus"`)
	problem(w, http.StatusUnauthorized, "Not authorised", detail)
	return false
}

func crossOrigin(w http.ResponseWriter) {
	problem(w, http.StatusForbidden, "Cross-origin request refused",
		"A web page of another origin may not change anything here. Use the command line or a program of your own.")
}

// refuse says what is wrong with the values of the header Authorization; empty
// when one of them is the token and there is no other.
func (p *permission) refuse(values []string) string {
	const want = "Send one header Authorization: Bearer with the coordinator's admin token (TASKBUS_ADMIN_TOKEN)."
	if len(values) != 1 {
		return want
	}
	scheme, given, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return want
	}
	// Both are hashed first: the time that the comparison takes then tells neither
	// where a guess goes wrong nor how long the token is.
	sum := sha256.Sum256([]byte(strings.TrimLeft(given, " ")))
	if subtle.ConstantTimeCompare(sum[:], p.token[:]) != 1 {
		return "The token is not the coordinator's admin token (TASKBUS_ADMIN_TOKEN); it is read when the coordinator starts."
	}
	return ""
}

// changing puts the permission, the limits and the record before an endpoint that
// changes something.
func (a *api) changing(change func(w http.ResponseWriter, r *http.Request, id string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.permission.granted(w, r) {
			return
		}
		id := r.PathValue("id")
		if !messages.ValidID(id) && strings.Contains(r.Pattern, "{id}") {
			badID(w)
			return
		}
		seen := &statusWriter{w, http.StatusInternalServerError} // until it has answered
		if a.changed != nil {
			defer func() { a.changed(Change{r.Method, r.URL.Path, r.RemoteAddr, seen.status}) }()
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxChangeBody)
		change(seen, r.WithContext(ctx), id)
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
	query, err := parameters(r.URL.RawQuery, "reason")
	if err != nil {
		badQuery(w, err)
		return
	}
	if !readBody(w, r, `nothing or {"reason": "..."}`, textMember("reason", &said)) {
		return
	}
	reason, given := query["reason"]
	if said != nil {
		if given {
			problem(w, http.StatusBadRequest, "Two reasons", "The reason is given in the query and in the body; give it once.")
			return
		}
		reason = *said
	}
	if utf8.RuneCountInString(reason) > MaxReason {
		problem(w, http.StatusBadRequest, "Reason too long", fmt.Sprintf("A reason has at most %d characters.", MaxReason))
		return
	}
	c, err := a.src.Cancel(r.Context(), id, messages.Clean(reason, MaxReason*utf8.UTFMax))
	if err != nil {
		notDone(w, err)
		return
	}
	status := http.StatusOK
	if c.State == CancelRequested {
		status = http.StatusAccepted // it may still be done
	}
	answer(w, status, c)
}

// order answers POST /agents/{id}/cordon, drain and uncordon.
func (a *api) order(order coordinator.Order) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, id string) {
		if !unasked(w, r) {
			return
		}
		if !readBody(w, r, "nothing or {}") {
			return
		}
		agent, err := a.src.Order(r.Context(), id, order)
		switch {
		case errors.Is(err, ErrNoAgent):
			unknownAgent(w, id)
		case err != nil:
			notDone(w, err)
		default:
			answer(w, http.StatusOK, agent)
		}
	}
}

// notDone answers a change that the service could not make.
func notDone(w http.ResponseWriter, err error) {
	problem(w, http.StatusServiceUnavailable, "Not done",
		"Nothing was changed: "+messages.Clean(err.Error(), messages.MaxText)+". /readyz says whether this instance leads.")
}
