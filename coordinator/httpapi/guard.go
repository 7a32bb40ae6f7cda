package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"

	"taskbus/coordinator/httpapi/internal/web"
)

// guard is what every request passes before an endpoint sees it.
func guard(next http.Handler, opts Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer recovered(w, r, opts.Report)
		web.Guarded(w.Header())
		if opts.LoopbackHosts && !loopbackHost(r.Host) {
			web.Problem(w, http.StatusMisdirectedRequest, "Host not allowed",
				"This server is bound to a loopback address and answers to localhost, 127.0.0.1 and [::1] only.")
			return
		}
		// Escaped, as the mux looks at it: %2F is no separator, but part of what was
		// given as an id, and for the endpoint to refuse.
		if at := r.URL.EscapedPath(); !reads(r) && path.Clean(at) != at {
			// The mux would redirect it to the clean path, and many clients follow
			// that with a GET: a client that wanted to change something would get a 200.
			notAllowed(w, readMethods)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const readMethods = "GET, HEAD"

// reads reports whether the request can only ask.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// reading lets requests through that only ask.
func reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !reads(r) {
			notAllowed(w, readMethods)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
		next.ServeHTTP(w, r)
	})
}

// notAllowed answers a method that the path does not have.
func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	web.Problem(w, http.StatusMethodNotAllowed, "Method not allowed", "This path answers "+allow+
		". GET / lists the endpoints.")
}

// recovered turns a panic into a 500 and a report. Without it net/http would
// print the panic to its own log and cut the connection.
func recovered(w http.ResponseWriter, r *http.Request, report func(string, any, []byte)) {
	cause := recover()
	if cause == nil {
		return
	}
	if report != nil {
		report(r.URL.Path, cause, debug.Stack())
	}
	// If the endpoint had begun to answer this adds nothing, and the client sees a
	// body that is too short.
	web.Problem(w, http.StatusInternalServerError, "Internal fault",
		"The fault is in the coordinator's log. Assigning tasks goes on.")
}

// loopbackHost reports whether a Host header names this machine itself: as
// localhost or as a loopback address. An address cannot be pointed elsewhere; a
// name can, which is why no other name is accepted.
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}
