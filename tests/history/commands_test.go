package history

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// taskbus runs a command against the coordinator, and gives its exit code and what it said.
func (p *process) taskbus(args ...string) (int, string) {
	p.r.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"TASKBUS_HTTP_URL=" + p.base, "TASKBUS_ADMIN_TOKEN=" + token, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.r.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The provider bills what the agents have told: they agree to the token. A bill that says a
// little more differs, by what it says more.
func TestCommandsOnARealHistory(t *testing.T) {
	r := newRig(t)
	p := r.start(filepath.Join(r.dir, "history.db"))
	r.work()
	p.awaitAgents(2) // else one of them may have done everything before the other came
	r.offer(200)
	r.done()
	p.agrees()

	var bill strings.Builder
	bill.WriteString("date,provider,model,agent,input_tokens,output_tokens,requests,cost_usd\n")
	var input, output int64
	for _, c := range r.bill.calls {
		provider, model := "openai", "gpt-4o"
		if c.group == "beta" {
			provider, model = "anthropic", "claude"
		}
		fmt.Fprintf(&bill, "%s,%s,%s,%s,%d,%d,1,%.6f\n", time.Now().UTC().Format(time.DateOnly), provider, model, c.agent,
			c.input, c.output, float64(2*c.input)/1e6)
		input, output = input+c.input, output+c.output
	}
	days := []string{"--from", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), "--to",
		time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly), "--by", "total", "--tolerance", "0", "--tolerance-usd", "0"}
	file := r.write("bill.csv", bill.String())
	if code, out := p.taskbus(append([]string{"quota", "reconcile", file}, days...)...); code != 0 ||
		!strings.Contains(out, "they agree: 200 lines of the bill, 4 compared") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	more := r.write("more.csv", bill.String()+time.Now().UTC().Format(time.DateOnly)+",openai,gpt-4o,a1,7,0,0,0\n")
	code, out := p.taskbus(append([]string{"quota", "reconcile", more}, days...)...)
	if code != 3 || strings.Count(out, "input_tokens") != 2 || !strings.Contains(out, "-7 ") ||
		!strings.Contains(out, "they differ: 1 of 4 compared") {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	var cost view.CostReport
	p.read(http.MethodGet, "/v1/quota/cost", "", &cost)
	if cost.Total.InputTokens != input || cost.Total.OutputTokens != output ||
		math.Abs(cost.Total.CostUSD-float64(2*input)/1e6) > 1e-9 || len(cost.Groups) != 2 || len(cost.Agents) != 4 ||
		len(cost.Models) != 2 {
		t.Errorf("the cost is %+v, and %d and %d tokens were used", cost, input, output)
	}
	// There is no whole day yet: it goes on as in the month so far.
	var f view.Forecasts
	p.read(http.MethodGet, "/v1/quota/forecast?node=pool", "", &f)
	if len(f.Budgets) != 1 || f.Budgets[0].Used != float64(input+output) || f.Budgets[0].Basis != "pace of the period" {
		t.Fatalf("the forecast is %+v", f)
	}
	b := f.Budgets[0]
	if want := b.Used * float64(b.ResetTime.Sub(b.PeriodFrom)) / float64(f.At.Sub(b.PeriodFrom)); math.Abs(
		b.Expected-want) > 1e-3*want {
		t.Errorf("expected are %v, want %v", b.Expected, want)
	}
	for _, args := range [][]string{{"quota", "history"}, {"quota", "cost"}, {"quota", "forecast"},
		{"quota", "history", "--rebuild"}} {
		if code, out := p.taskbus(args...); code != 0 || strings.Contains(out, "failing") {
			t.Errorf("taskbus %v ends with %d:\n%s", args, code, out)
		}
	}
	p.agrees()
}

// used is what counts as used of the pool's budget.
func (p *process) used() float64 {
	p.r.t.Helper()
	var pool view.QuotaNode
	p.read(http.MethodGet, "/v1/quota/nodes/pool", "", &pool)
	if len(pool.Budgets) != 1 {
		p.r.t.Fatalf("the pool is %+v", pool)
	}
	return pool.Budgets[0].Used
}

// tokens is what the agents have told in all.
func (r *rig) tokens() float64 { return r.told().tokens() }

// counts waits until as much counts as used as the agents have told.
func (p *process) counts() {
	p.r.t.Helper()
	p.r.eventually("what the agents have told counts as used", func() (bool, string) {
		used, told := p.used(), p.r.tokens()
		return used == told, fmt.Sprintf("%v of %v", used, told)
	})
}

// lost is what the coordinator reports of a journal that is gone.
func (p *process) lost() *view.JournalLost {
	p.r.t.Helper()
	var status view.Status
	p.read(http.MethodGet, "/status", "", &status)
	if status.Journal == nil {
		return nil
	}
	return status.Journal.Lost
}

// The journal is deleted, as `rabbitmqctl delete_queue coordinator.journal` does: that is reported until it is
// acknowledged; what was used of the budget is taken back from the history, and the history goes on with the new
// journal by itself. Nothing is counted twice, nor left out.
func TestJournalIsDeleted(t *testing.T) {
	r := newIdleRig(t) // it takes 20 s to find out
	file := filepath.Join(r.dir, "history.db")
	p := r.start(file)
	r.work()
	r.offer(100)
	r.done()
	p.agrees()
	p.counts()
	if p.lost() != nil {
		t.Errorf("a new broker is taken for one that has lost its journal: %+v", p.lost())
	}
	p.stop()
	r.broker.DeleteQueue(t, "coordinator.journal")

	p = r.start(file)
	lost := p.lost()
	if lost == nil || len(lost.Evidence) != 2 || !lost.BudgetsRestored || p.used() != r.tokens() {
		t.Fatalf("it reports %+v; %v are used, and %v were told", lost, p.used(), r.tokens())
	}
	if code, out := p.taskbus("health"); code != 0 || !strings.Contains(out, "the journal was empty") {
		t.Errorf("taskbus health ends with %d: %s", code, out)
	}
	if code, out := p.taskbus("journal", "acknowledge"); code != 0 {
		t.Errorf("taskbus journal acknowledge ends with %d: %s", code, out)
	}
	if p.lost() != nil {
		t.Error("acknowledged, it is still reported")
	}
	r.offer(10)
	r.done()
	p.agrees()
	p.counts()
	p.stop()
	p = r.start(file) // with a journal
	if p.lost() != nil {
		t.Errorf("with a journal it reports %+v", p.lost())
	}
	p.counts()
	if n := strings.Count(p.log.String(), `"level":"error"`); n != 0 {
		t.Errorf("%d errors are logged", n)
	}
}

// No history is asked for, and there is no place for it: one warning, and tasks go on.
func TestNoPlaceForHistory(t *testing.T) {
	r := newRig(t)
	r.write(".local", "a file where a directory should be")
	p := r.start("")
	r.work()
	r.offer(50)
	r.done()
	if n := strings.Count(p.log.String(), "no history of usage is kept"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	l, _, status := p.history()
	if status != http.StatusServiceUnavailable {
		t.Errorf("asked for the history it answers %d, %+v", status, l)
	}
}

// A database that cannot be reached when the coordinator starts is one that comes later.
func TestDatabaseComesLater(t *testing.T) {
	r := newRig(t)
	r.write("later", "a file where a directory should be")
	p := r.start(filepath.Join(r.dir, "later", "history.db"))
	r.work()
	r.offer(50)
	r.done()
	if err := os.Remove(filepath.Join(r.dir, "later")); err != nil {
		t.Fatal(err)
	}
	p.agrees()
	info, err := os.Stat(filepath.Join(r.dir, "later", "history.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v: it says who uses what", info, err)
	}
}
