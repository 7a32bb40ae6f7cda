package brokertest

import (
	"net/http"
	"time"
)

// HTTPClient gives a client with connections of its own. Those of http.DefaultTransport are
// shared by all tests of a package, and the end of an httptest.Server closes them: a request
// of a test beside it fails then.
func HTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{}}
}
