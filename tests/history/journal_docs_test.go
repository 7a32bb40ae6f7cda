package history

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// commandsIn are the commands of the block of docs/howto/backup.md that is marked so, one a line.
func commandsIn(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "howto", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- commands: " + name + " -->\n```sh\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("docs/howto/backup.md has no block marked <!-- commands: %s -->", name)
	}
	lines := slices.DeleteFunc(strings.Split(string(block[1]), "\n"), func(line string) bool { return line == "" })
	if len(lines) > 10 {
		t.Errorf("%s takes %d lines", name, len(lines))
	}
	return lines
}

// operator carries out commands of the manual for a service "taskbus", with a rabbitmqctl of this broker.
type operator struct {
	r       *rig
	service *process
	broker  brokertest.Broker
	history string
	env     map[string]string
}

// do carries them out one by one, in the rig's directory.
func (o *operator) do(commands []string) {
	t := o.r.t
	t.Helper()
	for _, line := range commands {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "systemctl stop taskbus"):
			o.service.stop()
		case strings.HasPrefix(line, "systemctl start taskbus"):
			o.r.broker = o.broker
			o.service = o.r.start(o.history)
		case words[0] == "export":
			o.broker = o.r.next
			o.env["RABBITMQ_URL"] = o.broker.URL
		case words[0] == "rabbitmqctl" && words[1] == "delete_queue":
			o.broker.Ctl(t, "delete_queue", "-p", o.broker.VHost, words[2])
		case words[0] == "curl": // the management API is elsewhere here
			line = strings.Replace(line, "-u ADMIN http://localhost:15672", os.Getenv(brokertest.EnvMgmt), 1)
			// The node's definitions are those of all virtual hosts, and it answers 500 when another test deletes
			// its own meanwhile.
			o.r.eventually("the node answers", func() (bool, string) {
				out, err := o.command(line).CombinedOutput()
				return err == nil, fmt.Sprintf("%v: %s", err, out)
			})
		default:
			o.shell(line)
		}
	}
}

// shell has the shell carry out one command.
func (o *operator) shell(line string) string {
	t := o.r.t
	t.Helper()
	if name, _, _ := strings.Cut(line, " "); name != "taskbus" {
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("not carried out, there is no %s here: %s", name, line)
			return ""
		}
	}
	out, err := o.command(line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// command is one of the shell, in the rig's directory and with the operator's environment.
func (o *operator) command(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = o.r.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(o.r.command())+":"+os.Getenv("PATH"), "TASKBUS_HTTP_URL="+
		o.service.base)
	for name, value := range o.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// command is the program under its name.
func (r *rig) command() string {
	r.t.Helper()
	link := filepath.Join(r.dir, "bin", "taskbus")
	if _, err := os.Lstat(link); err == nil {
		return link
	}
	path, err := filepath.Abs(program)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(link), 0o700)
	}
	if err == nil {
		err = os.Symlink(path, link)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return link
}

// boosted are the ids of what stands beside quotas.yaml.
func (p *process) boosted() []string {
	p.r.t.Helper()
	var c view.QuotaControls
	p.read(http.MethodGet, "/v1/quota/controls", "", &c)
	var ids []string
	for _, one := range c.Controls {
		ids = append(ids, one.ID)
	}
	return ids
}

// cordoned reports whether an agent is.
func (p *process) cordoned(id string) bool {
	p.r.t.Helper()
	var s view.Status
	p.read(http.MethodGet, "/status", "", &s)
	for _, a := range s.Agents {
		if a.ID == id {
			return a.Cordoned
		}
	}
	return false
}

// TestBackupAndRestoreAsTheManualSays: a backup, more work, the journal deleted, and what the manual says then. Orders
// and changes of quotas are those of the backup, what was used is what the history has since.
func TestBackupAndRestoreAsTheManualSays(t *testing.T) {
	r := newIdleRig(t)
	o := r.operator()
	r.work()
	r.offer(60)
	r.done()
	o.service.agrees()
	o.service.counts()
	if code, out := o.service.taskbus("quota", "set", "pool/alpha", "weight=5", "--reason", "a test"); code != 0 {
		t.Fatal(out)
	}
	if code, out := o.service.taskbus("agents", "cordon", "a2"); code != 0 {
		t.Fatal(out)
	}
	o.do(commandsIn(t, "backup"))
	for _, name := range []string{"journal.tbj", "definitions.json", "agents.yaml", "quotas.yaml"} {
		if info, err := os.Stat(filepath.Join(o.env["BACKUP"], name)); err != nil || info.Size() == 0 {
			t.Errorf("the backup has no %s: %v", name, err)
		}
	}
	if code, out := o.service.taskbus("agents", "uncordon", "a2"); code != 0 { // which the backup does not know
		t.Fatal(out)
	}
	r.offer(40)
	r.done()
	o.service.agrees()
	o.service.counts()
	o.do(commandsIn(t, "restore"))
	if lost := o.service.lost(); lost != nil {
		t.Errorf("after it was restored, it is reported as lost: %+v", lost)
	}
	if !o.service.cordoned("a2") || len(o.service.boosted()) != 1 {
		t.Errorf("a2 is cordoned: %t; of the changes of quotas %v stand", o.service.cordoned("a2"), o.service.boosted())
	}
	o.service.counts()
	r.offer(20)
	r.done()
	o.service.agrees()
	o.service.counts()
}

// TestMoveToAnotherBrokerAsTheManualSays: what one coordinator knew, the next one knows on another broker, and the
// history goes on as if nothing had been.
func TestMoveToAnotherBrokerAsTheManualSays(t *testing.T) {
	r := newIdleRig(t)
	r.next = brokertest.Vhost(t)
	o := r.operator()
	done := r.workUntil()
	r.offer(60)
	r.done()
	o.service.agrees()
	o.service.counts()
	if code, out := o.service.taskbus("agents", "cordon", "a2"); code != 0 {
		t.Fatal(out)
	}
	done() // agents come along
	o.do(commandsIn(t, "move"))
	if lost := o.service.lost(); lost != nil {
		t.Errorf("on the new broker the journal is reported as lost: %+v", lost)
	}
	if !o.service.cordoned("a2") {
		t.Error("an order did not come along")
	}
	o.service.counts()
	r.work()
	r.offer(20)
	r.done()
	o.service.agrees()
	o.service.counts()
}

// operator has a service that runs.
func (r *rig) operator() *operator {
	r.t.Helper()
	history := filepath.Join(r.dir, "history.db")
	return &operator{r: r, service: r.start(history), broker: r.broker, history: history, env: map[string]string{
		"RABBITMQ_URL": r.broker.URL, "NEW_RABBITMQ_URL": r.next.URL, "TASKBUS_HISTORY": history,
		"TASKBUS_ADMIN_TOKEN": token,
		"TASKBUS_CONFIG":      filepath.Join(r.dir, "agents.yaml"), "BACKUP": filepath.Join(r.dir, "backup"), "HOME": r.dir,
	}}
}
