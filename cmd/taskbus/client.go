package main

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
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
)

const (
	clientTimeout = 10 * time.Second
	maxAnswer     = 64 << 20 // bytes; /status of a fleet of 100,000 agents is about 40 MB
)

// client asks a running coordinator over HTTP.
type client struct {
	// base is the coordinator that is asked; of several, bases, it is the first until the one that leads
	// has been sought.
	base   string
	bases  []string
	sought bool
	http   *http.Client
	// token is sent with changes; empty for a client that only reads.
	token config.Secret
}

// urlFlag adds --url to a command that asks the coordinator.
func urlFlag(c *cobra.Command) *string {
	return c.Flags().String("url", "", "`URL` of the coordinator, or several separated by commas: the leader is asked\n"+
		"(default $TASKBUS_HTTP_URL, else http://127.0.0.1:${COORDINATOR_PORT:-8551})")
}

// newClient finds out where the coordinators are: the flag, TASKBUS_HTTP_URL, or this machine.
func (a *app) newClient(flag string) (*client, error) {
	list, by := flag, "--url"
	if list == "" {
		list, by = a.getenv("TASKBUS_HTTP_URL"), "TASKBUS_HTTP_URL"
	}
	if list == "" {
		port := a.getenv("COORDINATOR_PORT")
		if port == "" {
			port = "8551"
		}
		list, by = "http://127.0.0.1:"+port, "COORDINATOR_PORT"
	}
	c := &client{http: &http.Client{Timeout: clientTimeout}}
	for base := range strings.SplitSeq(list, ",") {
		base = strings.TrimSpace(base)
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			// Not quoted: it may hold a password.
			return nil,
				usageError(
					"%s is not the URL of a coordinator; write http://host:8551, or several of them separated by commas, without user and password", by)
		}
		if base = strings.TrimRight(base, "/"); !slices.Contains(c.bases, base) {
			c.bases = append(c.bases, base)
		}
	}
	c.base = c.bases[0]
	var err error
	if c.http.Transport, err = a.trusting(); err != nil {
		return nil, err
	}
	return c, nil
}

// trusting is for coordinators whose certificates are of the authority in the file of TASKBUS_CA;
// nil, which stands for the usual one, if the variable is not set.
func (a *app) trusting() (http.RoundTripper, error) {
	authorities, err := a.authorities()
	if authorities == nil || err != nil {
		return nil, err
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12,
		RootCAs: authorities}}, nil
}

// authorities are those of the file of TASKBUS_CA; nil: the variable is not set, and the system's count.
func (a *app) authorities() (*x509.CertPool, error) {
	path := a.getenv("TASKBUS_CA")
	if path == "" {
		return nil, nil
	}
	pool, err := readAuthorities(path)
	if err != nil {
		return nil, configError(fmt.Errorf("TASKBUS_CA: %w", err))
	}
	return pool, nil
}

// newAdminClient is newClient with the admin token of the environment, for what
// changes something. Without a token the coordinator says itself what is missing.
func (a *app) newAdminClient(flag string) (*client, error) {
	c, err := a.newClient(flag)
	if err != nil {
		return nil, err
	}
	if c.token, err = config.ReadAdminToken(a.getenv); err != nil {
		return nil, configError(err)
	}
	// The token goes where it was meant to go and nowhere else; and a redirected
	// change may arrive as a GET, whose answer would look like success.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// get asks for path and decodes the answer into v, which is nil when only the
// status matters. What the coordinator itself says against the question becomes
// the error, unless it comes with one of the further statuses that are an answer.
func (c *client) get(ctx context.Context, path string, v any, further ...int) error {
	request, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	c.authorise(request)
	return c.do(request, v, further...)
}

// change is get for what changes something. Every change can be repeated.
func (c *client) change(ctx context.Context, method, path string, body, v any) error {
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
func (c *client) authorise(request *http.Request) {
	if token := c.token.Reveal(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
}

// request makes one for the coordinator that leads, as far as that is known.
func (c *client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	c.seek(ctx)
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.asking(), err)
	}
	return request, nil
}

func (c *client) asking() string { return "ask the coordinator at " + c.base }

func (c *client) do(request *http.Request, v any, further ...int) error {
	doing := c.asking()
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return fmt.Errorf("%s: %w; is it running (`taskbus serve`)? Say where with --url or TASKBUS_HTTP_URL", doing, err)
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
		return fmt.Errorf("%s: the answer of %s says nothing; is something else listening there?", doing, request.URL.Path)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: the answer of %s is not the JSON expected (%w); is something else listening there?", doing,
			request.URL.Path, err)
	}
	return nil
}

// saysNothing reports whether an answer is null, or an object without a field: no coordinator's is.
func saysNothing(body []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(body, &members) == nil && len(members) == 0
}

// unauthorised says in terms of the command line what a 401 means.
func (c *client) unauthorised() error {
	if c.token.Reveal() == "" {
		return fmt.Errorf(
			"the coordinator at %s wants its admin token: set TASKBUS_ADMIN_TOKEN_FILE, or TASKBUS_ADMIN_TOKEN, to the one it was started with", c.base)
	}
	return fmt.Errorf(
		"the coordinator at %s has another admin token than TASKBUS_ADMIN_TOKEN or TASKBUS_ADMIN_TOKEN_FILE gives here; it knows the one it was started with", c.base)
}

func refused(doing string, status int, body []byte) error {
	var p gateway.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Title == "" {
		return fmt.Errorf("%s: it answered %d without an explanation; is something else listening there?", doing, status)
	}
	return errors.New(p.Title + ": " + p.Detail)
}

// status asks for everything the coordinator reports of itself.
func (c *client) status(ctx context.Context) (httpapi.Status, error) {
	var s httpapi.Status
	err := c.get(ctx, "/status", &s)
	return s, err
}

func (c *client) tasks(ctx context.Context, f httpapi.TaskFilter) (httpapi.TaskList, error) {
	query := url.Values{"state": {f.State}, "agent": {f.Agent}, "limit": {strconv.Itoa(f.Limit)}}
	var l httpapi.TaskList
	err := c.get(ctx, "/tasks?"+query.Encode(), &l)
	return l, err
}

func (c *client) explain(ctx context.Context, id string) (httpapi.TaskExplanation, error) {
	var e httpapi.TaskExplanation
	err := c.get(ctx, "/tasks/"+url.PathEscape(id)+"/explain", &e)
	return e, err
}

// whatIf asks how a task would be decided. The body goes as it is.
func (c *client) whatIf(ctx context.Context, body []byte) (httpapi.Prospect, error) {
	var answer httpapi.Prospect
	request, err := c.request(ctx, http.MethodPost, "/whatif", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	request.Header.Set("Content-Type", "application/json")
	err = c.do(request, &answer)
	return answer, err
}

// cancel withdraws a task.
func (c *client) cancel(ctx context.Context, id, reason string) (httpapi.Cancellation, error) {
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	var answer httpapi.Cancellation
	err := c.change(ctx, http.MethodDelete, "/tasks/"+url.PathEscape(id), body, &answer)
	return answer, err
}

// order cordons, drains or uncordons an agent.
func (c *client) order(ctx context.Context, id string, order coordinator.Order) (httpapi.Agent, error) {
	var answer httpapi.Agent
	err := c.change(ctx, http.MethodPost, "/agents/"+url.PathEscape(id)+"/"+order.String(), struct{}{}, &answer)
	return answer, err
}

// shows has a command ask the coordinator for what is at that path, and print it.
func shows[T any](a *app, c *cobra.Command, path string, print func(T) error) {
	base := urlFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		var answer T
		if err := client.get(c.Context(), path, &answer); err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(answer)
		}
		return print(answer)
	}
}
