package tests

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/config"
	"taskbus/tests/support/brokertest"
)

const tutorial = "docs/tutorial.md"

// tutorialFleet is the agents.yaml of the tutorial.
func tutorialFleet(t *testing.T) string {
	t.Helper()
	for _, b := range blocks(t, tutorial, "tutorial") {
		if b.name == "agents.yaml" {
			return b.text
		}
	}
	t.Fatalf("%s shows no agents.yaml", tutorial)
	return ""
}

func TestTutorialFleetIsInOrder(t *testing.T) {
	cfg, err := config.Parse([]byte(tutorialFleet(t)), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if warnings := cfg.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0].Text, "read-text") {
		t.Errorf("warnings %+v, want one, of the route read-text, that the tutorial shows", warnings)
	}
}

// step is a command that a page shows, with what it prints.
type step struct{ command, output string }

// steps are those of a page's blocks that are marked <!-- tutorial: run -->.
func steps(t *testing.T, page string) (all []step) {
	t.Helper()
	for _, b := range blocks(t, page, "tutorial") {
		if b.name != "run" {
			continue
		}
		for _, part := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			command, output, _ := strings.Cut(part, "\n")
			all = append(all, step{command, strings.TrimRight(output, "\n")})
		}
	}
	return all
}

var (
	blanks   = regexp.MustCompile(` +`)
	duration = regexp.MustCompile(`\bnow\b|\d+(\\\.\d+)?( \+)?m?s( \+ago)?\b`)
	agentNo  = regexp.MustCompile(`press-[12]`)
	hash     = regexp.MustCompile(`version [0-9a-f]{12}`)
)

// shown is what an output has to match: as it is shown, but for durations, hashes, which of the two equal agents it
// is, blanks, and what the page leaves out (…).
func shown(output string) *regexp.Regexp {
	pattern := blanks.ReplaceAllString(regexp.QuoteMeta(output), " +")
	pattern = duration.ReplaceAllString(pattern, `(now|[0-9.]+ *m?s( ago)?)`)
	pattern = agentNo.ReplaceAllString(pattern, `press-[12]`)
	pattern = hash.ReplaceAllString(pattern, `version [0-9a-f]{12}`)
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(pattern, "…", ".*") + `$`)
}

// The tutorial works as it stands there: each command in an empty folder, in one shell, against a broker. Looks
// (agents, tasks, explain, …) are repeated until they say what is shown.
func TestTutorial(t *testing.T) {
	t.Parallel()
	brokertest.NeedsPika(t)
	broker := brokertest.Vhost(t)
	bin, folder := t.TempDir(), t.TempDir()
	if _, err := brokertest.Program(bin); err != nil {
		t.Fatal(err)
	}
	brokertest.DependOnProgram(t)
	if err := os.Symlink(brokertest.Python, filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "agents.yaml"), []byte(tutorialFleet(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close() // the coordinator's from here on
	shell := exec.Command("bash")
	shell.Dir = folder
	shell.Env = append(os.Environ(), "RABBITMQ_URL="+broker.URL, "TASKBUS="+brokertest.ModuleRoot(t), "HOME="+folder,
		"PATH="+bin+":"+os.Getenv("PATH"), "COORDINATOR_PORT="+port, "TASKBUS_HTTP_URL=http://127.0.0.1:"+port)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL); _ = shell.Wait() })

	answers := bufio.NewScanner(out)
	run := func(command string) string {
		if _, err := io.WriteString(in, command+"\necho @end\n"); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		var lines []string
		for answers.Scan() && answers.Text() != "@end" {
			lines = append(lines, answers.Text())
		}
		return strings.TrimRight(strings.Join(lines, "\n"), "\n")
	}
	all := steps(t, tutorial)
	if len(all) < 10 {
		t.Fatalf("%s shows %d commands", tutorial, len(all))
	}
	for _, s := range all {
		look := strings.HasPrefix(s.command, "taskbus ") && !strings.HasPrefix(s.command, "taskbus submit") && s.output != ""
		said, want := run(s.command), shown(s.output)
		end := time.Now().Add(time.Minute)
		for look && !want.MatchString(said) && time.Now().Before(end) {
			time.Sleep(100 * time.Millisecond)
			said = run(s.command)
		}
		if !want.MatchString(said) {
			t.Fatalf("$ %s\n%s\n%s shows:\n%s\nthe logs:\n%s", s.command, said, tutorial, s.output, run("tail *.log"))
		}
		t.Logf("$ %s\n%s", s.command, said)
	}
}

// The comparison has to be able to fail.
func TestShown(t *testing.T) {
	for _, c := range []struct {
		shown, said string
		want        bool
	}{
		{"a  1s ago  yes", "a now    yes", true},
		{"took 0.2 s", "took 12 s", true},
		{"page-7: press-1", "page-7: press-2", true},
		{"page-7: press-1", "page-8: press-2", false},
		{"99 done", "98 done", false},
		{"a\n…\nb", "a\nx\nb", true},
		{"a", "a\nb", false},
	} {
		if got := shown(c.shown).MatchString(c.said); got != c.want {
			t.Errorf("%q as %q: %t, want %t", c.said, c.shown, got, c.want)
		}
	}
}
