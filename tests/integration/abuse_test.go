package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/calls"
	"taskbus/tests/support/openapi"
)

// abuser asks a coordinator for quota, by fair means or foul, and holds every answer to the document.
type abuser struct {
	t        *testing.T
	c        *process
	document *openapi.Document
}

// does asks as an agent, with its own token, for what is below /v1/quota/.
func (a *abuser) does(agent, what, body string) (status int, answer calls.CallAnswer, text string) {
	a.t.Helper()
	return a.asks(what, body, "Authorization", "Bearer "+credential.AgentToken([]byte(agentSecret), agent),
		"X-Quota-Agent", agent)
}

func (a *abuser) asks(what, body string, headers ...string) (status int, answer calls.CallAnswer, text string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.c.base+"/v1/quota/"+what,
		strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		a.t.Fatalf("POST %s: %v", what, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.document.Check(http.MethodPost, "/v1/quota/"+what, resp.StatusCode, resp.Header.Get("Content-Type"),
		data); err != nil {
		a.t.Error(err)
	}
	if resp.StatusCode == 200 {
		if err := json.Unmarshal(data, &answer); err != nil {
			a.t.Fatal(err)
		}
	}
	return resp.StatusCode, answer, string(data)
}

// books fails unless an agent has used and reserved so many tokens.
func (a *abuser) books(why, agent string, used, reserved float64) {
	a.t.Helper()
	if u, r := a.c.used(agent); u != used || r != reserved {
		a.t.Errorf("%s: %s has used %v and reserved %v tokens, want %v and %v", why, agent, u, r, used, reserved)
	}
}

// What agents try with their own tokens, and clients without, costs no other agent anything.
func TestAbuseOfQuota(t *testing.T) {
	t.Parallel()
	_, c := gatewayRig(t, strings.Replace(gatewayQuotas, "groups:\n",
		"groups:\n  - {id: rivals, limits: {total_tokens: {amount: 9999, per: day}}}\n", 1), "TASKBUS_GATEWAY_TOKEN="+
		gatewayToken)
	d, err := openapi.Read()
	if err != nil {
		t.Fatal(err)
	}
	a := &abuser{t, c, d}
	want := func(what string, status, wanted int, text string) {
		t.Helper()
		if status != wanted {
			t.Errorf("%s: %d %s, want %d", what, status, text, wanted)
		}
	}

	// A settle that comes again, with other numbers, changes nothing; nor does a release after it.
	status, answer, text := a.does("rich", "reserve",
		`{"reservation_id": "r-1", "input_tokens": 100, "output_tokens": 50}`)
	want("a reservation", status, 200, text)
	if answer.ReservationID != "r-1" || answer.Group != "team" {
		t.Errorf("reserved as %+v", answer)
	}
	a.books("reserved", "rich", 0, 150)
	status, answer, text = a.does("rich", "reserve", `{"reservation_id": "r-1", "input_tokens": 100, "output_tokens": 50}`)
	if want("again", status, 200, text); !answer.Standing || answer.Reserved.TotalTokens != 150 {
		t.Errorf("the same again: %+v, want what stands", answer)
	}
	status, _, text = a.does("rich", "reserve", `{"reservation_id": "r-1", "input_tokens": 1, "output_tokens": 1}`)
	want("the same id for less", status, 409, text)
	a.books("still reserved", "rich", 0, 150)
	status, _, text = a.does("rich", "settle", `{"reservation_id": "r-1", "input_tokens": 100, "output_tokens": 20}`)
	want("settled", status, 200, text)
	for _, again := range []string{`{"reservation_id": "r-1", "input_tokens": 0, "output_tokens": 0}`,
		`{"reservation_id": "r-1", "input_tokens": 500, "output_tokens": 0}`} {
		status, _, text = a.does("rich", "settle", again)
		want("settled again", status, 409, text)
	}
	status, _, text = a.does("rich", "release", `{"reservation_id": "r-1"}`)
	want("released after that", status, 409, text)
	status, _, text = a.does("rich", "reserve", `{"reservation_id": "r-1", "input_tokens": 1}`)
	want("reserved under the same id after that", status, 409, text)
	a.books("settled once", "rich", 120, 0)

	// Another's reservation does not exist for an agent: ids of agents have nothing to do with each other.
	status, _, text = a.does("rich", "reserve", `{"reservation_id": "mine", "input_tokens": 100, "output_tokens": 0}`)
	want("a reservation", status, 200, text)
	for _, what := range []string{"settle", "release", "extend"} {
		status, _, text = a.does("rare", what, `{"reservation_id": "mine"}`)
		want("another's "+what, status, 404, text)
		status, _, text = a.asks(what, `{"reservation_id": "mine"}`, "Authorization", "Bearer "+gatewayToken)
		want("a gateway's "+what+", for nobody in particular", status, 404, text)
	}
	a.books("tampered with by others", "rich", 120, 100)
	status, _, text = a.asks("release", `{"reservation_id": "mine", "agent_id": "rich"}`, "Authorization",
		"Bearer "+gatewayToken)
	want("a gateway's, for the agent", status, 200, text)

	// No agent speaks for another, or in another group's name.
	status, _, text = a.does("rare", "consume", `{"agent_id": "rich", "input_tokens": 10}`)
	want("in the name of another", status, 403, text)
	status, _, text = a.asks("consume", `{"agent_id": "rich"}`, "Authorization",
		"Bearer "+credential.AgentToken([]byte(agentSecret), "rare"))
	want("with the token of another", status, 401, text)
	status, _, text = a.does("rare", "consume", `{"group_id": "rivals", "input_tokens": 10, "output_tokens": 1}`)
	want("for another group", status, 403, text)
	status, _, text = a.does("unlisted", "consume", `{"group_id": "rivals", "input_tokens": 10, "output_tokens": 1}`)
	want("one that no group lists, for a group", status, 403, text)

	// What is no amount is refused before anything is done.
	for _, body := range []string{
		`{"input_tokens": -5}`, `{"output_tokens": -1e-9}`, `{"cost_usd": -0.01}`, `{"requests": -1}`, `{"concurrency": -1}`,
		`{"ttl_seconds": -1}`, `{"tokens_needed": 1e13}`,
		`{"input_tokens": "10"}`, `{"input_tokens": 1e999}`, `{"input_tokens": NaN}`, `{"input_tokens": 1.5}`,
		`{"input_tokens": 1, "input_tokens": 2}`, `{"Input_Tokens": 1}`,
		`{"input_tokens": 1} {"input_tokens": 1}`, `[{"input_tokens": 1}]`, "{\"model\": \"\xff\"}", `{"model": "a b"}`,
		`{"reservation_id": "../r"}`,
	} {
		status, _, text = a.does("rare", "reserve", body)
		want(body, status, 400, text)
		status, _, text = a.does("rare", "settle", strings.Replace(body, "{", `{"reservation_id": "r", `, 1))
		want("settle "+body, status, 400, text)
	}
	a.books("nothing was an amount", "rare", 0, 0)

	// Bodies that are too large, or are none.
	status, _, text = a.does("rare", "reserve", `{"model": "`+strings.Repeat("m", 10<<20)+`"}`)
	want("10 MB", status, 413, text)
	for _, kind := range []string{"text/xml", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"} {
		status, _, text = a.asks("reserve", `{}`, "Content-Type", kind, "Authorization", "Bearer "+gatewayToken)
		want(kind, status, 415, text)
	}
	status, _, text = a.asks("reserve", `{}`, "Authorization", "Bearer "+gatewayToken, "Sec-Fetch-Site", "cross-site")
	want("from a page of another origin", status, 403, text)
	a.books("after all of it", "rich", 120, 0)
	a.books("after all of it", "rare", 0, 0)

	for _, path := range []string{"/", "/health", "/livez", "/readyz", "/status", "/metrics", "/tasks", "/capabilities",
		"/agents/stats", "/openapi.yaml", "/v1/quota", "/v1/quota/explain"} {
		resp, err := httpClient.Get(c.base + path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(http.MethodGet, path, resp.StatusCode, resp.Header.Get("Content-Type"), data); err != nil {
			t.Error(err)
		}
	}
}

// Clients that send one byte after the other, or nothing, hold no other up, and are cut off.
func TestSlowClientsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	_, c := gatewayRig(t, gatewayQuotas)
	d, err := openapi.Read()
	if err != nil {
		t.Fatal(err)
	}
	a := &abuser{t, c, d}
	address := strings.TrimPrefix(c.base, "http://")
	var slow []net.Conn
	begun := time.Now()
	for i := range 300 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		slow = append(slow, conn)
		switch i % 3 {
		case 0: // a header that does not end
			_, err = io.WriteString(conn, "POST /v1/quota/reserve HTTP/1.1\r\nHost: localhost\r\nX-")
		case 1: // a body that does not come
			_,
				err = fmt.Fprintf(conn,
				"POST /v1/quota/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer "+
					"%s\r\nX-Quota-Agent: rich\r\nContent-Length: 8000\r\n\r\n{",
				credential.AgentToken([]byte(agentSecret), "rich"))
		default: // nothing at all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	asked := time.Now()
	for i := range 20 {
		if status, _, text := a.does("rich", "consume",
			fmt.Sprintf(`{"reservation_id": "r-%d", "input_tokens": 1, "output_tokens": 1}`, i)); status != 200 {
			t.Errorf("meanwhile: %d %s", status, text)
		}
	}
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("20 calls took %v while 300 clients were slow", took)
	}
	a.books("meanwhile", "rich", 40, 0)
	// The last of them is cut off after 10 s: the time for a whole request.
	for i, conn := range slow {
		if err := conn.SetReadDeadline(begun.Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("client %d is still there after %v", i, time.Since(begun))
		}
	}
	a.books("after them", "rich", 40, 0)
}
