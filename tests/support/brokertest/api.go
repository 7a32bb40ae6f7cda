package brokertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// api is the management HTTP API of one node.
type api struct {
	base           string // http://host:port, without the password
	user, password string
	client         *http.Client
}

func newAPI(t testing.TB, mgmtURL string) api {
	t.Helper()
	u := parse(t, mgmtURL)
	// A virtual host of 500 queues takes a busy machine more than 20 s to delete.
	a := api{user: u.User.Username(), client: HTTPClient(2 * time.Minute)}
	a.password, _ = u.User.Password()
	u.User = nil
	a.base = strings.TrimSuffix(u.String(), "/")
	t.Cleanup(a.client.CloseIdleConnections)
	return a
}

// must does one call and fails the test unless the broker did what it was asked.
// The path's elements are escaped; in and out may be nil.
func (a api) must(t testing.TB, method string, in, out any, path ...string) {
	t.Helper()
	if _, err := a.call(method, in, out, path...); err != nil {
		t.Fatal(err)
	}
}

// call returns the HTTP status, 0 if there was none.
func (a api) call(method string, in, out any, path ...string) (int, error) {
	for i, element := range path {
		path[i] = url.PathEscape(element)
	}
	target := a.base + "/api/" + strings.Join(path, "/")
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encode the body of %s %s: %w", method, target, err)
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequest(method, target, body)
	if err != nil {
		return 0, fmt.Errorf("make the request %s %s: %w", method, target, err)
	}
	req.SetBasicAuth(a.user, a.password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask the management API (does the broker run? scripts/broker.sh status): %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, fmt.Errorf("read the answer to %s %s: %w", method, target, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return resp.StatusCode, fmt.Errorf("%s %s: the broker answered %s: %s", method, target, resp.Status, answer)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			return resp.StatusCode, fmt.Errorf("decode the answer to %s %s: %w", method, target, err)
		}
	}
	return resp.StatusCode, nil
}
