package failover

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// narrow is a quotas.yaml in which project_alpha has tokens for 3 of these tests' tasks a year, and
// the pool for 100. A task may come before its group.
const narrow = `
unknown_callers: allow
pool:
  limits: {total_tokens: {amount: 10000, per: year}}
groups:
  - {id: project_alpha, weight: 1, limits: {total_tokens: {amount: 300, per: year, borrow: 0}}}
`

// TestControlsSurvive: by command line and HTTP the leader is told of a larger limit, of another
// group and of a boost while tasks wait for quota, and dies. The next leader knows all of it, and
// what was used under it; the boost ends in its time; a file under which something does not fit is
// taken over without it.
func TestControlsSurvive(t *testing.T) {
	t.Parallel()
	r := newRig(t, brokertest.Vhost(t).URL)
	r.configure(strings.Replace(fleet, "assignment_timeout_seconds: 5", "assignment_timeout_seconds: 300", 1))
	file := filepath.Join(filepath.Dir(r.config), "quotas.yaml")
	if err := os.WriteFile(file, []byte(narrow), 0o600); err != nil {
		t.Fatal(err)
	}
	leader := r.launch("the first", r.url)
	leader.awaitState("active")
	standby := r.launch("the standby", r.url)
	standby.awaitState("standby")
	k := &meter{keeper: keeper{gate: make(chan struct{})}, tasks: make(map[string]bool), begun: make(chan struct{}),
		told: make(chan struct{})}
	r.sdk("keeper", 8, k.work)
	leader.awaitStatus("its agent is online", func(s view.Status) bool {
		for _, a := range s.Agents {
			if a.ID == "keeper" && a.Eligible {
				return true
			}
		}
		return false
	})

	var tasks []request
	for i := range 6 {
		tasks = append(tasks, limitedTask(fmt.Sprint("alpha-", i), "project_alpha"))
	}
	tasks = append(tasks, limitedTask("beta-0", "project_beta"))
	r.offer(tasks...)
	holds := func(n int) {
		t.Helper()
		r.eventually(patience, fmt.Sprint(n, " tasks are with the agent"),
			func() (bool, string) { return k.holding() == n, fmt.Sprint(k.holding()) })
	}
	holds(4) // 3 of alpha's; beta's group is not listed

	// What is not permitted, not possible or does not fit changes nothing.
	for _, c := range []struct {
		at     *process
		token  string
		body   string
		status int
		says   string
	}{
		{leader, "", `{"node":"pool/project_alpha","set":{"weight":5}}`, http.StatusUnauthorized, ""},
		{leader, strings.Repeat("x", 40), `{"node":"pool/project_alpha","set":{"weight":5}}`, http.StatusUnauthorized, ""},
		{leader, adminToken, `{"node":"pool/project_gamma","set":{"weight":5}}`, http.StatusUnprocessableEntity,
			"no node of the quota trees is called pool/project_gamma"},
		{leader, adminToken, `{"node":"pool/project_alpha","set":{"total_tokens.amount":10001}}`,
			http.StatusUnprocessableEntity, "less than those below it have of their own"},
		{leader, adminToken, `{"node":"pool/project_alpha","set":{"weight":"` + strings.Repeat("9", 1<<20) + `"}}`,
			http.StatusRequestEntityTooLarge, ""},
		{standby, strings.Repeat("x", 40), `{"node":"pool/project_alpha","set":{"weight":5}}`, http.StatusUnauthorized, ""},
		{standby, adminToken, `{"node":"pool/project_gamma","set":{"weight":5}}`, http.StatusUnprocessableEntity,
			"no node of the quota trees is called pool/project_gamma"},
	} {
		status, text := c.at.post("/v1/quota/controls", c.token, c.body)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%.80s: %d %.300s; want %d with %q", c.body, status, text, c.status, c.says)
		}
	}
	if c := leader.controls(); len(c) != 0 {
		t.Fatalf("there stand %+v", c)
	}

	// The rest of alpha's tasks start when the limit is raised, by whichever coordinator; beta's group is made.
	r.cli(standby, "quota", "set", "pool/project_alpha", "total_tokens.amount=600", "--reason", "the launch")
	holds(7)
	r.cli(leader, "quota", "add-group", "project_beta", "weight=2", "limits.total_tokens.amount=200",
		"limits.total_tokens.per=year")
	r.cli(leader, "quota", "boost", "pool/project_beta", "total_tokens", "+50%", "--for", "25s")
	if out := r.cli(leader, "quota", "controls"); !strings.Contains(out, "total_tokens.amount=600") ||
		!strings.Contains(out, "the launch") {
		t.Errorf("listed:\n%s", out)
	}
	boosted := time.Now()
	before := map[string]view.QuotaBudget{"pool/project_alpha": leader.budget("pool/project_alpha"),
		"pool/project_beta": leader.budget("pool/project_beta")}
	if b := before["pool/project_beta"]; b.Limit != 300 || b.Reserved != estimate {
		t.Errorf("beta has %+v, want 300 of which its task, which came before the group, has %d", b, estimate)
	}
	for id, want := range before { // the standby has it as well, from the journal
		r.eventually(patience, "the standby knows of "+id, func() (bool, string) {
			b := standby.budget(id)
			return b.Limit == want.Limit && b.Reserved == want.Reserved, fmt.Sprintf("%+v, want %+v", b, want)
		})
	}

	leader.kill()
	leader = standby
	leader.awaitState("active")
	for id, want := range before {
		if b := leader.budget(id); b.Limit != want.Limit || b.Reserved != want.Reserved || b.Used != want.Used {
			t.Errorf("%s has %+v with the next leader, want %+v", id, b, want)
		}
	}
	r.eventually(patience, "the boost ends", func() (bool, string) {
		b := leader.budget("pool/project_beta")
		return b.Limit == 200, fmt.Sprintf("%+v", b)
	})
	if lasted := time.Since(boosted); lasted < 22*time.Second {
		t.Errorf("the boost of 25 s ended after %v", lasted)
	}

	// A pool of 500 has no room for alpha's 600: that is suspended, and the file's 300 count.
	if err := os.WriteFile(file, []byte(strings.Replace(narrow, "10000", "500", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.eventually(patience, "the file is taken over", func() (bool, string) {
		b := leader.budget("pool/project_alpha")
		return b.Limit == 300 && leader.budget("pool").Limit == 500, fmt.Sprintf("%+v", b)
	})
	suspended := 0
	for _, c := range leader.controls() {
		if c.Suspended != "" {
			suspended++
		}
	}
	if suspended != 1 {
		t.Errorf("%d are suspended of %+v", suspended, leader.controls())
	}
	if err := os.WriteFile(file, []byte(narrow), 0o600); err != nil {
		t.Fatal(err)
	}
	r.eventually(patience, "it counts again", func() (bool, string) {
		b := leader.budget("pool/project_alpha")
		return b.Limit == 600, fmt.Sprintf("%+v", b)
	})
	for _, c := range leader.controls() {
		if c.Kind != "group" {
			r.cli(leader, "quota", "unset", c.ID)
		}
	}
	r.cli(leader, "quota", "remove-group", "project_beta")
	if c := leader.controls(); len(c) != 0 || leader.budget("pool/project_alpha").Limit != 300 {
		t.Errorf("there stand %+v, and alpha has %+v", c, leader.budget("pool/project_alpha"))
	}
	k.letGo()
	leader.awaitStatus("nothing is left", func(s view.Status) bool {
		return s.Pending.Total == 0 &&
			s.Pending.Leased == 0
	})
	if s := leader.status(); s.Audit.Violations > 0 {
		t.Errorf("the auditor has found %+v", s.Audit.Found)
	}
}

// limitedTask is thought to take estimate tokens.
func limitedTask(id, group string) request {
	q := task(id, "keep")
	q.Group = group
	q.Usage = map[string]int{"input_tokens": 80, "output_tokens": 20}
	return q
}

// post sends a body with a token.
func (c *process) post(path, token, body string) (status int, text string) {
	c.r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		c.r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		c.r.t.Fatalf("POST %s of %s: %v", path, c.name, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.r.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// cli runs the command line against a coordinator, and gives what it prints.
func (r *rig) cli(c *process, args ...string) string {
	r.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"TASKBUS_HTTP_URL=" + c.base, "TASKBUS_ADMIN_TOKEN=" + adminToken, "USER=ann",
		"HOME=" + r.t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("taskbus %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// controls are what stands.
func (c *process) controls() []view.QuotaControl {
	c.r.t.Helper()
	var q view.QuotaControls
	c.read("/v1/quota/controls", &q)
	return q.Controls
}

// budget is that of total tokens of a node.
func (c *process) budget(node string) view.QuotaBudget {
	c.r.t.Helper()
	_, body := c.get("/v1/quota/nodes/" + node)
	var n view.QuotaNode
	if err := json.Unmarshal([]byte(body), &n); err != nil {
		return view.QuotaBudget{Limit: -1}
	}
	for _, b := range n.Budgets {
		if b.Dimension == "total_tokens" {
			return b
		}
	}
	return view.QuotaBudget{Limit: -1}
}
