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

	"taskbus/coordinator/httpapi"
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
		fmt.Fprintf(&bill, "%s,%s,%s,%s,%d,%d,1,%.6f\n", time.Now().UTC().Format(time.DateOnly), provider, model, c.agent, c.input, c.output, float64(2*c.input)/1e6)
		input, output = input+c.input, output+c.output
	}
	days := []string{"--from", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), "--to", time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly), "--by", "total", "--tolerance", "0", "--tolerance-usd", "0"}
	file := r.write("bill.csv", bill.String())
	if code, out := p.taskbus(append([]string{"quota", "reconcile", file}, days...)...); code != 0 || !strings.Contains(out, "they agree: 200 lines of the bill, 4 compared") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	more := r.write("more.csv", bill.String()+time.Now().UTC().Format(time.DateOnly)+",openai,gpt-4o,a1,7,0,0,0\n")
	code, out := p.taskbus(append([]string{"quota", "reconcile", more}, days...)...)
	if code != 3 || strings.Count(out, "input_tokens") != 2 || !strings.Contains(out, "-7 ") || !strings.Contains(out, "they differ: 1 of 4 compared") {
		t.Errorf("exit code %d:\n%s", code, out)
	}

	var cost httpapi.CostReport
	p.read(http.MethodGet, "/v1/quota/cost", "", &cost)
	if cost.Total.InputTokens != input || cost.Total.OutputTokens != output || math.Abs(cost.Total.CostUSD-float64(2*input)/1e6) > 1e-9 || len(cost.Groups) != 2 || len(cost.Agents) != 4 || len(cost.Models) != 2 {
		t.Errorf("the cost is %+v, and %d and %d tokens were used", cost, input, output)
	}
	// There is no whole day yet: it goes on as in the month so far.
	var f httpapi.Forecasts
	p.read(http.MethodGet, "/v1/quota/forecast?node=pool", "", &f)
	if len(f.Budgets) != 1 || f.Budgets[0].Used != float64(input+output) || f.Budgets[0].Basis != "pace of the period" {
		t.Fatalf("the forecast is %+v", f)
	}
	b := f.Budgets[0]
	if want := b.Used * float64(b.ResetTime.Sub(b.PeriodFrom)) / float64(f.At.Sub(b.PeriodFrom)); math.Abs(b.Expected-want) > 1e-3*want {
		t.Errorf("expected are %v, want %v", b.Expected, want)
	}
	for _, args := range [][]string{{"quota", "history"}, {"quota", "cost"}, {"quota", "forecast"}, {"quota", "history", "--rebuild"}} {
		if code, out := p.taskbus(args...); code != 0 || strings.Contains(out, "failing") {
			t.Errorf("taskbus %v ends with %d:\n%s", args, code, out)
		}
	}
	p.agrees()
}

// The journal was deleted and begun anew: the history does not mix the two by itself, says so,
// and takes the new one over when it is told to; what it had stays.
func TestAnotherJournal(t *testing.T) {
	r := newIdleRig(t) // it takes 20 s to find out
	file := filepath.Join(r.dir, "history.db")
	p := r.start(file)
	r.work()
	r.offer(100)
	r.done()
	before := p.agrees()
	p.stop()
	r.broker.DeleteQueue(t, "coordinator.journal")

	p = r.start(file)
	r.offer(10)
	r.done()
	r.eventually("it says that the journal is another", func() (bool, string) {
		l, _, _ := p.history()
		return l.Projection.State == "failing" && strings.Contains(l.Projection.Detail, "it was deleted and begun anew"), fmt.Sprintf("%+v", l.Projection)
	})
	if _, got, _ := p.history(); fmt.Sprint(got) != fmt.Sprint(sumsOf(before)) {
		t.Errorf("it has changed meanwhile")
	}
	var made httpapi.Rebuilt
	if status := p.read(http.MethodPost, "/v1/quota/history/rebuild", "", &made); status != http.StatusOK || !made.Kept || made.FromDay != "" {
		t.Fatalf("the rebuild answers %d, %+v", status, made)
	}
	r.offer(10)
	r.done()
	p.agrees()
}

// Nobody has asked for a history, and there is no place for it: one warning, and tasks go on.
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
