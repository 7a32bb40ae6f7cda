package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi/calls"
)

// A leader of a later version may answer with a value that this one does not know. It is not passed on:
// rendering it would look for its name behind the end of a list, and the process that was asked would end.
func TestForwardedAnswersOfALaterVersion(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"State": 0}`:   true,
		`{"State": 200}`: false,
		`{"State": 1, "Lacks": {"Dimension": 2, "Text": "none"}}`:  true,
		`{"State": 1, "Lacks": {"Dimension": 77, "Text": "none"}}`: false,
		`{"State": 1, "Routes": [{"Lacks": {"Dimension": 77}}]}`:   false,
		`{"State": 0, "Limits": [{"Dimension": 77}]}`:              false,
		`{"State": 8}`: false, // why it is not believed is always said
	} {
		leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"answers": [` + answer + `]}`))
		}))
		got, err := calls.Forward(t.Context(), leader.Client(), leader.URL, "token", make([]coordinator.Call, 1))
		if (err == nil) != want {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
		leader.Close()
	}
}
