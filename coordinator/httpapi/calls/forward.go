package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/internal/web"
)

// ForwardPath is where a coordinator answers for others that stand by.
const ForwardPath = "/v1/quota/forward"

// maxForwarded bounds what is forwarded at one time, and what is answered.
const (
	maxForwarded = 1 << 20
	mostCalls    = 1024
)

// forwardedCalls and forwardedAnswers go between coordinators of perhaps different versions: a
// field that one does not know counts as not given.
type forwardedCalls struct {
	Calls []coordinator.Call `json:"calls"`
}

type forwardedAnswers struct {
	Answers []coordinator.CallAnswer `json:"answers"`
}

// Forwarded answers what another coordinator was asked. That has checked the caller already. It is not
// forwarded again.
func (c *Calls) Forwarded(w http.ResponseWriter, r *http.Request) {
	if token, ok := credential.Bearer(r.Header.Values("Authorization")); !ok || !c.peers.Is(token) {
		web.Problem(w, http.StatusUnauthorized, "Not authorised",
			"This is for other coordinators with the same secret of agents, or token of gateways.")
		return
	}
	if !web.Unasked(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForwarded))
	var asked forwardedCalls
	if err != nil || json.Unmarshal(body, &asked) != nil || len(asked.Calls) == 0 || len(asked.Calls) > mostCalls {
		web.BadBody(w, "what a coordinator forwards")
		return
	}
	for i := range asked.Calls {
		if asked.Calls[i].Op >= coordinator.NumCallOps || asked.Calls[i].Priority > coordinator.PriorityCritical {
			web.BadBody(w, "what a coordinator of this version, or an earlier one, forwards")
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	answers, err := c.src.AskLeader(ctx, asked.Calls)
	if err != nil {
		web.NotDone(w, err)
		return
	}
	web.AnswerCompactly(w, http.StatusOK, forwardedAnswers{answers})
}

// Forward asks the coordinator at that address. gateway.ErrNotLeading (wrapped) when it does not lead; any
// other error leaves open whether it was done.
func Forward(ctx context.Context, client *http.Client, address, token string,
	calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	text, err := json.Marshal(forwardedCalls{calls})
	if err != nil {
		return nil, fmt.Errorf("encode calls for the leader: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+ForwardPath, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("ask the leader at %s: %w", address, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxForwarded))
	var got forwardedAnswers
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the leader's answer: %w", err)
	case response.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("ask the leader at %s: %w", address, gateway.ErrNotLeading)
	case response.StatusCode != http.StatusOK:
		return nil,
			fmt.Errorf(
				"the leader at %s answers %d: see that all coordinators have the same TASKBUS_AGENT_SECRET, or "+
					"TASKBUS_GATEWAY_TOKEN", address, response.StatusCode)
	}
	if err := json.Unmarshal(body, &got); err != nil || len(got.Answers) != len(calls) {
		return nil, fmt.Errorf("the leader at %s gives no answers to %d calls", address, len(calls))
	}
	for i := range got.Answers {
		if !understood(&got.Answers[i]) {
			return nil,
				fmt.Errorf(
					"the leader at %s gives an answer that this version does not know: run the same version of Taskbus everywhere",
					address)
		}
	}
	return got.Answers, nil
}

// understood reports whether an answer says nothing that this version has no word for.
func understood(a *coordinator.CallAnswer) bool {
	knows := func(lacks *coordinator.QuotaLack) bool {
		return lacks == nil || lacks.Dimension < coordinator.Dimension(coordinator.NumDimensions)
	}
	return a.State < coordinator.CallState(coordinator.NumCallStates) && knows(a.Lacks) &&
		(a.Lacks != nil || a.State != coordinator.CallDoubted) &&
		!slices.ContainsFunc(a.Routes, func(r coordinator.RouteScore) bool { return !knows(r.Lacks) }) &&
		!slices.ContainsFunc(a.Limits, func(l coordinator.QuotaLeft) bool {
			return l.Dimension >= coordinator.Dimension(coordinator.NumDimensions)
		})
}
