package calls

import (
	"net/http"
	"strconv"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/internal/web"
)

// StatusHeader is where the answer to a gateway that understands 200, 401 and 403 alone has the
// status that it would have otherwise.
const StatusHeader = "X-Quota-Status"

// reservationHeader names the reservation, in the question and in the answer.
const reservationHeader = "X-Quota-Reservation"

// Authenticate answers GET /v1/quota/auth: nginx's auth_request, which asks with headers alone
// and lets a call through with 200. It is asked with GET and changes something all the same:
// nginx cannot ask otherwise.
func (c *Calls) Authenticate() http.Handler { return c.byHeaders(readAuth) }

// AuthSettled answers GET /v1/quota/auth/settle: what a call that Authenticate has reserved quota
// for has used, from nginx's post_action.
func (c *Calls) AuthSettled() http.Handler { return c.byHeaders(readAuthSettled) }

// byHeaders serves calls for clients that ask with headers and understand three answers.
func (c *Calls) byHeaders(read func(http.Header, *callRequest) (op coordinator.CallOp, fault string)) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		w := authWriter{plain}
		// What a page of another origin makes a browser send is looked at as if it were a POST,
		// for it changes as much as one.
		unsafe := *r
		unsafe.Method = http.MethodPost
		if !web.SameOrigin(w, &unsafe, c.browsers) || !web.Unasked(w, r) {
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
		var said callRequest
		op, fault := read(r.Header, &said)
		if fault != "" {
			web.Problem(w, http.StatusBadRequest, "Bad headers", "Nothing was done: "+fault+".")
			return
		}
		who, ok := c.callers.of(w, r, said.agent)
		if !ok {
			return
		}
		if call, id, ok := c.callOf(w, who, op, &said); ok {
			c.ask(w, r, call, id, c.nginxAnswers)
		}
	})
}

// authWriter answers with one of the three statuses that nginx's auth_request understands, and
// says in a header what it would have been. Any other answer would be an error to nginx, and
// fail the client's request with 500.
type authWriter struct{ http.ResponseWriter }

func (w authWriter) WriteHeader(status int) {
	h := w.Header()
	h.Set(StatusHeader, strconv.Itoa(status))
	switch status {
	case http.StatusOK, http.StatusUnauthorized:
		w.ResponseWriter.WriteHeader(status)
		return
	case http.StatusTooManyRequests:
		// A refusal may be kept for a second, so that a client that does not wait costs the gateway a look
		// into its memory, and not a question. Nothing else ever may.
		h.Set("Cache-Control", "max-age="+strconv.Itoa(refusalKept))
		h.Set("Vary", "Authorization, X-Quota-Agent, X-Quota-Group, X-Quota-Provider, X-Quota-Model")
	}
	w.ResponseWriter.WriteHeader(http.StatusForbidden)
}

// refusalKept is for how many seconds a gateway may repeat a refusal by itself: no longer than
// every Retry-After at least is.
const refusalKept = 1

// authAnswers answers nginx's auth_request.
type authAnswers struct{ callAnswers }

func (c authAnswers) granted(w http.ResponseWriter, id string, call *coordinator.Call, x *coordinator.CallAnswer) {
	gateway.RateLimits(w.Header(), x, call.Key, c.legacy)
	w.Header().Set(reservationHeader, id)
	if x.Provider != "" {
		w.Header().Set(gateway.ProviderHeader, x.Provider)
	}
	w.WriteHeader(http.StatusOK)
}
