package quota

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// Something that is no coordinator answers "OK" to everything, with an empty object: no change was made, and
// nothing is known of quotas.
func TestAnswerThatSaysNothing(t *testing.T) {
	for _, body := range []string{"{}", "null", " {\n}"} {
		for _, line := range []string{"agents drain a", "quota set pool weight=1", "quota ls", "quota show pool", "tasks"} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_,
					_ = io.WriteString(w, body)
			}))
			r := newRig()
			r.Env["TASKBUS_HTTP_URL"] = server.URL
			code := r.Run(t, strings.Fields(line)...)
			server.Close()
			if code != cli.ExitFailed || r.Out.String() != "" ||
				!strings.Contains(r.Err.String(), "is something else listening there?") {
				t.Errorf("%s, answered %s: exit code %d, stdout %q, stderr %q", line, body, code, r.Out.String(), r.Err.String())
			}
		}
	}
}

// A rebuild that goes on when the order has been answered can fail afterwards: that is no success.
func TestRebuildThatFailsLater(t *testing.T) {
	for state, code := range map[string]int{"following": cli.ExitOK, "failing": cli.ExitFailed,
		"stopped": cli.ExitFailed} {
		r := newRig()
		said := &answers{of: map[string]any{
			"/v1/quota/history/rebuild": view.Rebuilt{State: "rebuilding"},
			"/v1/quota/history": view.HistoryList{By: "day", Projection: view.Projection{
				State: state, Detail: "the disk is full", Gaps: []view.HistoryGap{{To: clitest.Noon, Reason: "damaged"}},
			}},
		}}
		said.start(t, r)
		r.Env["TASKBUS_ADMIN_TOKEN"] = strings.Repeat("x", 32)
		if got := r.Run(t, "quota", "history", "--rebuild"); got != code ||
			strings.Contains(r.Err.String(), "was not made anew") != (code == cli.ExitFailed) {
			t.Errorf("%s: exit code %d, want %d; stderr %q", state, got, code, r.Err.String())
		}
		if want := "missing: some time to " + clitest.Noon.UTC().Format(time.RFC3339); !strings.Contains(r.Out.String(),
			want) {
			t.Errorf("got %q, want %q in it", r.Out.String(), want)
		}
	}
}

// What projects and keys are called on a bill is for others to say: a comma is part of a name.
func TestNamesOfBillsInOneLine(t *testing.T) {
	got := inOneLine([]string{"gpt-4o-2024-08-06=gpt-4o", "Acme, Inc=team-a", `5" model=m`})
	if want := `gpt-4o-2024-08-06=gpt-4o,"Acme, Inc=team-a","5"" model=m"`; got != want || strings.Contains(got, "\n") {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A page of nodes says how to see the next one.
func TestQuotaNodesByPages(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.URL.RequestURI()); r.URL.Query().Get("after") == "" {
			_,
				_ = io.WriteString(w,
				`{"configured": true, "nodes": [{"id": "pool"}, {"id": "pool/a"}], "total_nodes": 3, "next": "pool/a", `+
					`"groups": []}`)
			return
		}
		_, _ = io.WriteString(w, `{"configured": true, "nodes": [{"id": "pool/b"}], "total_nodes": 3, "groups": []}`)
	}))
	defer server.Close()
	for _, c := range []struct {
		line, asks string
		more       bool
	}{
		{"quota ls --limit 2", "/v1/quota?limit=2", true},
		{"quota ls --limit 2 --after pool/a", "/v1/quota?after=pool%2Fa&limit=2", false},
	} {
		r := newRig()
		r.Env["TASKBUS_HTTP_URL"], asked = server.URL, nil
		code := r.Run(t, strings.Fields(c.line)...)
		if code != cli.ExitOK || len(asked) == 0 || asked[0] != c.asks ||
			strings.Contains(r.Out.String(), "go on with --after pool/a,") != c.more {
			t.Errorf("%s: exit code %d after %v, %q, %q", c.line, code, asked, r.Out.String(), r.Err.String())
		}
	}
	for _, line := range []string{"quota ls --after //", "quota ls --after pool/a --group a"} {
		r := newRig()
		if code := r.Run(t, strings.Fields(line)...); code != cli.ExitUsage || !strings.Contains(r.Err.String(), "--after") {
			t.Errorf("%s: exit code %d, %q", line, code, r.Err.String())
		}
	}
}
