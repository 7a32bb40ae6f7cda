package web

import (
	"encoding/json"
	"net/http"
	"strconv"

	"taskbus/coordinator/gateway"
	"taskbus/messages"
)

// RetryAfter is the header of the seconds after which it is of use to ask again.
const RetryAfter = "Retry-After"

// MaxBody bounds what a client may send to an endpoint that reads no body.
const MaxBody = 1 << 10

// headers go with every answer. The interface is for programs and for people that look at JSON: nothing in
// it may run, be framed, or be kept in a cache.
var headers = [...]struct {
	name  string // in its canonical form
	value []string
}{
	{"Cache-Control", []string{"no-store"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"X-Content-Type-Options", []string{"nosniff"}},
}

// Guarded adds them.
func Guarded(to http.Header) {
	for i := range headers {
		to[headers[i].name] = headers[i].value // Set would make a list for each answer
	}
}

// Answer writes v as JSON. It is encoded before anything is sent: a value that
// cannot be encoded becomes an honest 500, not half an answer.
func Answer(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	encoded(w, status, body, err)
}

// AnswerCompactly is Answer for programs that ask often.
func AnswerCompactly(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	encoded(w, status, body, err)
}

func encoded(w http.ResponseWriter, status int, body []byte, err error) {
	if err != nil {
		Problem(w, http.StatusInternalServerError, "Answer cannot be encoded",
			"Encoding the answer: "+err.Error()+". This is a fault of Taskbus; please report it.")
		return
	}
	Send(w, status, "application/json", body)
}

// Problem answers what is not done: title names the kind, detail says what is wrong and what to do.
func Problem(w http.ResponseWriter, status int, title, detail string) {
	Refuse(w, status, title, gateway.Problem{Title: title, Status: status, Detail: detail})
}

// Refuse answers with a problem that says more.
func Refuse(w http.ResponseWriter, status int, title string, p any) {
	body, err := json.Marshal(p)
	if err != nil { // plain fields: cannot happen, and must not be silent if it does
		http.Error(w, title, status)
		return
	}
	Send(w, status, "application/problem+json", body)
}

// Send is the way of every answer with a body. One that is to be asked for again says when, at once where
// it has not said so itself.
func Send(w http.ResponseWriter, status int, contentType string, body []byte) {
	body = append(body, '\n')
	if again := w.Header().Get(RetryAfter) == ""; again &&
		(status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		w.Header().Set(RetryAfter, "1")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A reader that has gone away is no fault of ours.
	_, _ = w.Write(body)
}

// SameOrigin lets a request through that no page of another origin has made a browser send, or answers it.
func SameOrigin(w http.ResponseWriter, r *http.Request, browsers *http.CrossOriginProtection) bool {
	if browsers.Check(r) == nil {
		return true
	}
	Problem(w, http.StatusForbidden, "Cross-origin request refused",
		"A web page of another origin may not change anything here. Use the command line or a program of your own.")
	return false
}

// NotDone answers a change that the service could not make.
func NotDone(w http.ResponseWriter, err error) {
	Problem(w, http.StatusServiceUnavailable, "Not done",
		"Nothing was changed: "+messages.Clean(err.Error(), messages.MaxText)+". /readyz says whether this instance leads.")
}

// NotAvailable answers a question that the service cannot answer now.
func NotAvailable(w http.ResponseWriter, title, doing string, err error) {
	Problem(w, http.StatusServiceUnavailable, title,
		doing+": "+messages.Clean(err.Error(), messages.MaxText)+". Try again; /livez and /readyz answer without it.")
}
