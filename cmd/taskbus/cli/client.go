package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"taskbus/config"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/view"
)

const (
	clientTimeout = 10 * time.Second
	maxAnswer     = 64 << 20 // bytes; /status of a fleet of 100,000 agents is about 40 MB
)

// Client asks a running coordinator over HTTP.
type Client struct {
	// Base is the coordinator that is asked, one of Bases; the first until the one that leads has been sought.
	Base   string
	Bases  []string
	sought bool
	HTTP   *http.Client
	// token is sent with changes; empty for a client that only reads.
	token config.Secret
}

// NewClient finds out where the coordinators are: the flag, TASKBUS_HTTP_URL, or this machine.
func (a *App) NewClient(flag string) (*Client, error) {
	list, by := flag, "--url"
	if list == "" {
		list, by = a.Getenv("TASKBUS_HTTP_URL"), "TASKBUS_HTTP_URL"
	}
	if list == "" {
		port := a.Getenv("COORDINATOR_PORT")
		if port == "" {
			port = "8551"
		}
		list, by = "http://127.0.0.1:"+port, "COORDINATOR_PORT"
	}
	c := &Client{HTTP: &http.Client{Timeout: clientTimeout}}
	for base := range strings.SplitSeq(list, ",") {
		base = strings.TrimSpace(base)
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			// Not quoted: it may hold a password.
			return nil,
				UsageError(
					"%s is not the URL of a coordinator; write http://host:8551, or several of them separated by "+
						"commas, without user and password", by)
		}
		if base = strings.TrimRight(base, "/"); !slices.Contains(c.Bases, base) {
			c.Bases = append(c.Bases, base)
		}
	}
	c.Base = c.Bases[0]
	var err error
	if c.HTTP.Transport, err = a.trusting(); err != nil {
		return nil, err
	}
	return c, nil
}

// trusting is a transport that accepts certificates of the authority in the file of TASKBUS_CA;
// nil, which stands for the usual one, if the variable is not set.
func (a *App) trusting() (http.RoundTripper, error) {
	authorities, err := a.Authorities()
	if authorities == nil || err != nil {
		return nil, err
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12,
		RootCAs: authorities}}, nil
}

// Authorities are those of the file of TASKBUS_CA; nil: the variable is not set, and the system's count.
func (a *App) Authorities() (*x509.CertPool, error) {
	path := a.Getenv("TASKBUS_CA")
	if path == "" {
		return nil, nil
	}
	pool, err := ReadAuthorities(path)
	if err != nil {
		return nil, ConfigError(fmt.Errorf("TASKBUS_CA: %w", err))
	}
	return pool, nil
}

// NewAdminClient is NewClient with the admin token of the environment, for what
// changes something. Without a token the coordinator says itself what is missing.
func (a *App) NewAdminClient(flag string) (*Client, error) {
	c, err := a.NewClient(flag)
	if err != nil {
		return nil, err
	}
	if c.token, err = config.ReadAdminToken(a.Getenv); err != nil {
		return nil, ConfigError(err)
	}
	// The token goes where it was meant to go and nowhere else; and a redirected
	// change may arrive as a GET, and the answer to that would look like success.
	c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Get asks for path and decodes the answer into v, which is nil when only the
// status matters. What the coordinator itself says against the question becomes
// the error, unless it comes with one of the further statuses that are an answer.
func (c *Client) Get(ctx context.Context, path string, v any, further ...int) error {
	request, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	c.authorise(request)
	return c.do(request, v, further...)
}

// Change is Get for what changes something. Every change can be repeated.
func (c *Client) Change(ctx context.Context, method, path string, body, v any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	request, err := c.request(ctx, method, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	c.authorise(request)
	return c.do(request, v)
}

// authorise adds the admin token, if this client has one.
func (c *Client) authorise(request *http.Request) {
	if token := c.token.Reveal(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
}

// request makes one for the coordinator that leads, as far as that is known.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	c.seek(ctx)
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Asking(), err)
	}
	return request, nil
}

func (c *Client) Asking() string { return "ask the coordinator at " + c.Base }

func (c *Client) do(request *http.Request, v any, further ...int) error {
	doing := c.Asking()
	request.Header.Set("Accept", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return fmt.Errorf("%s: %w; is it running (`taskbus serve`)? Say where with --url or TASKBUS_HTTP_URL",
			doing, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: read the answer: %w", doing, err)
	}
	switch {
	case response.StatusCode == http.StatusOK, response.StatusCode == http.StatusAccepted,
		slices.Contains(further, response.StatusCode):
	case response.StatusCode == http.StatusUnauthorized:
		return c.unauthorised()
	default:
		return refused(doing, response.StatusCode, body)
	}
	if v == nil {
		return nil
	}
	// it would read as an answer in which all is zero: a change that was made, nothing that is limited
	if saysNothing(body) {
		return fmt.Errorf("%s: the answer of %s says nothing; is something else listening there?", doing,
			request.URL.Path)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: the answer of %s is not the JSON expected (%w); is something else listening there?",
			doing, request.URL.Path, err)
	}
	return nil
}

// saysNothing reports whether an answer is null, or an object without a field: no coordinator's is.
func saysNothing(body []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(body, &members) == nil && len(members) == 0
}

// unauthorised says in terms of the command line what a 401 means.
func (c *Client) unauthorised() error {
	if c.token.Reveal() == "" {
		return fmt.Errorf(
			"the coordinator at %s wants its admin token: set TASKBUS_ADMIN_TOKEN_FILE, or TASKBUS_ADMIN_TOKEN, to "+
				"the one it was started with", c.Base)
	}
	return fmt.Errorf(
		"the coordinator at %s has another admin token than TASKBUS_ADMIN_TOKEN or TASKBUS_ADMIN_TOKEN_FILE gives "+
			"here; it knows the one it was started with", c.Base)
}

func refused(doing string, status int, body []byte) error {
	var p gateway.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Title == "" {
		return fmt.Errorf("%s: it answered %d without an explanation; is something else listening there?", doing,
			status)
	}
	return errors.New(p.Title + ": " + p.Detail)
}

// Status asks for everything the coordinator reports of itself.
func (c *Client) Status(ctx context.Context) (view.Status, error) {
	var s view.Status
	err := c.Get(ctx, "/status", &s)
	return s, err
}

// AskAbout posts a body of that type, as it is.
func AskAbout[T any](ctx context.Context, c *Client, path, contentType string, body []byte) (answer T, err error) {
	request, err := c.request(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	request.Header.Set("Content-Type", contentType)
	err = c.do(request, &answer)
	return answer, err
}

// Ask asks the coordinator at base (see [App.NewClient]) for what is at a path.
func Ask[T any](ctx context.Context, a *App, base, path string) (answer T, err error) {
	c, err := a.NewClient(base)
	if err == nil {
		err = c.Get(ctx, path, &answer)
	}
	return answer, err
}

// Tell has the coordinator at base change something, with the admin token.
func Tell[T any](ctx context.Context, a *App, base, method, path string, body any) (answer T, err error) {
	c, err := a.NewAdminClient(base)
	if err == nil {
		err = c.Change(ctx, method, path, body, &answer)
	}
	return answer, err
}
