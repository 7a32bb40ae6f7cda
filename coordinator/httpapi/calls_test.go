package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// What is reserved, consumed or charged is answered with its id, given or made; what is only checked
// with none, because it could not be settled.
func TestACheckHasNoReservation(t *testing.T) {
	for op := range coordinator.CallOp(coordinator.NumCallOps) {
		for _, id := range []string{"", "mine"} {
			if id == "" && (op == coordinator.CallExtend || op == coordinator.CallSettle || op == coordinator.CallRelease) {
				continue // of an existing one
			}
			asked := map[string]string{"agent_id": "a"}
			if id != "" {
				asked["reservation_id"] = id
			}
			text, err := json.Marshal(asked)
			if err != nil {
				t.Fatal(err)
			}
			resp := changeWith(granted(), callOptions, request{http.MethodPost, "/v1/quota/" + op.String(), string(text),
				[][2]string{asGateway}})
			var answer map[string]any
			if err := json.Unmarshal([]byte(body(t, resp)), &answer); err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %d, %v", op, resp.StatusCode, err)
			}
			got, has := answer["reservation_id"].(string)
			if has == (op == coordinator.CallCheck) || has && id != "" && got != id {
				t.Errorf("%s of %q is answered with the reservation %q (%t)", op, id, got, has)
			}
		}
	}
}

// A client that names another agent than its own shows a token or a certificate: the answer speaks of both.
func TestAnotherAgentIsRefused(t *testing.T) {
	src := granted()
	resp := changeWith(src, callOptions, request{http.MethodPost, "/v1/quota/consume", `{"agent_id": "b"}`,
		[][2]string{tokenOf("a"), {"X-Quota-Agent", "a"}}})
	if said := body(t, resp); resp.StatusCode != 403 ||
		!strings.Contains(said, "The token, or the certificate, is that of agent a;") || len(src.calls) > 0 {
		t.Errorf("%d %s, and %d calls were asked about", resp.StatusCode, said, len(src.calls))
	}
}

// What is asked for under an id of the caller's is known by a hash, for whatever time it is; an
// id that is taken is answered 409.
func TestIDsStandForOneCall(t *testing.T) {
	asked := func(op coordinator.CallOp, said string) uint64 {
		src := granted()
		resp := changeWith(src, callOptions, request{http.MethodPost, "/v1/quota/" + op.String(), said,
			[][2]string{asGateway}})
		if text := body(t, resp); resp.StatusCode != 200 || len(src.calls) != 1 {
			t.Fatalf("%s %s: %d %s", op, said, resp.StatusCode, text)
		}
		return src.calls[0].Asked
	}
	const first = `{"reservation_id": "r", "agent_id": "a", "input_tokens": 100}`
	same := asked(coordinator.CallReserve, first)
	if same == 0 || asked(coordinator.CallReserve, first) != same || asked(coordinator.CallConsume, first) == 0 ||
		asked(coordinator.CallCharge, first) == 0 ||
		asked(coordinator.CallReserve,
			`{"reservation_id": "r", "agent_id": "a", "input_tokens": 100, "ttl_seconds": 5}`) != same {
		t.Error("the same call has another hash")
	}
	if other := asked(coordinator.CallReserve,
		`{"reservation_id": "r", "agent_id": "a", "input_tokens": 5000}`); other == same || other == 0 {
		t.Error("another call has the same hash")
	}
	if asked(coordinator.CallReserve, `{"agent_id": "a", "input_tokens": 100}`) != 0 {
		t.Error("there is a hash where no id is given")
	}
	resp := changeWith(refusedBy(coordinator.CallTaken), callOptions, request{http.MethodPost, "/v1/quota/consume", first,
		[][2]string{asGateway}})
	if said := body(t, resp); resp.StatusCode != 409 || !strings.Contains(said, `"title":"Id is taken"`) {
		t.Errorf("%d %s", resp.StatusCode, said)
	}
}
