package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"taskbus/tests/support/brokertest"
)

// Tests are left out for want of servers by make check alone.
func TestOnlyMakeCheckDoesWithoutServers(t *testing.T) {
	var where []string
	for _, pattern := range []string{"../Makefile", "../scripts/*", "../.ci/*", "../docker-compose.yml", "../Dockerfile"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			} else if n := strings.Count(string(text), brokertest.EnvServers); n > 0 {
				where = append(where, file)
			}
		}
	}
	if len(where) != 1 || where[0] != "../Makefile" ||
		strings.Count(projectFile(t, "Makefile"), brokertest.EnvServers) != 1 {
		t.Errorf("%s is set in %q, want once in the Makefile, by check", brokertest.EnvServers, where)
	}
}

// The first question to Go must not fetch the release that go.mod asks for: its output goes nowhere,
// so that nothing would be said for as long as that takes.
func TestNeedGoFetchesNothing(t *testing.T) {
	for version, wants := range map[string]string{"go1.21.5": "", "go1.26.8": "", "go1.20.14": "go1.20.14 is too old",
		"": "no Go toolchain found"} {
		bin := t.TempDir()
		fake := "#!/bin/sh\n[ \"$GOTOOLCHAIN\" = local ] || exit 1\necho " + version + "\n"
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte(fake), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "../scripts/need-go.sh")
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		if (err == nil) != (wants == "") || !strings.Contains(string(out), wants) {
			t.Errorf("%q: %v, %s", version, err, out)
		}
	}
	if !strings.Contains(projectFile(t, "Makefile"), "$(shell GOTOOLCHAIN=local go env GOFLAGS") {
		t.Error("the Makefile asks Go without GOTOOLCHAIN=local")
	}
}

// A package that is not there, or a commit, is a failure of make flakes, and not every run passed.
func TestFlakesRunsWhatItIsAsked(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"flakes.sh", "own-broker.sh", "need-go.sh"} {
		if err := os.WriteFile(filepath.Join(root, "scripts", script), []byte(projectFile(t, "scripts/"+script)),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	fakes := map[string]string{
		"go":  "[ $1 != list ] || { echo stat $2: directory not found >&2; exit 1; }\necho go1.26.8\n",
		"git": "[ $1 != rev-parse ] || exit 1\n",
	}
	for name, body := range fakes {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"./nowhere"}, "./nowhere: directory not found"},
		{[]string{"--base", "nonsense"}, "there is no commit nonsense"},
		{[]string{"--runs", "many"}, "--runs wants a number"},
	} {
		cmd := exec.Command(filepath.Join(root, "scripts", "flakes.sh"), test.args...)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), test.says) || strings.Contains(string(out), "every run passed") {
			t.Errorf("%q: %v, %s", test.args, err, out)
		}
	}
}

// aptGet stands for apt-get: its answers are files, one after the other, the last for good.
const aptGet = `#!/bin/sh
echo "$*" >>"$ANSWERS/calls"
n=$(wc -l <"$ANSWERS/calls")
while [ "$n" -gt 0 ] && [ ! -e "$ANSWERS/$n" ]; do n=$((n - 1)); done
[ "$n" -gt 0 ] || exit 0
cat "$ANSWERS/$n"
grep -q '^E:' "$ANSWERS/$n" && exit 100
exit 0
`

// aptHeld is what apt-get says while another package manager is at work (apt 2.6).
const aptHeld = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)\n"

// ensurePromtool runs scripts/ensure.sh on a machine that has no promtool and these answers of apt-get.
func ensurePromtool(t *testing.T, patience string, answers ...string) (calls []string, said string, err error) {
	t.Helper()
	root := t.TempDir()
	scripts, bin, folder := filepath.Join(root, "scripts"), filepath.Join(root, "bin"), filepath.Join(root, "answers")
	for _, dir := range []string{scripts, bin, folder} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(scripts, "ensure.sh"), projectFile(t, "scripts/ensure.sh"))
	write(filepath.Join(bin, "apt-get"), aptGet)
	write(filepath.Join(bin, "id"), "#!/bin/sh\necho 0\n")
	write(filepath.Join(bin, "go"), "#!/bin/sh\necho sh\n") // the C compiler
	for i, answer := range answers {
		write(filepath.Join(folder, string(rune('1'+i))), answer)
	}
	for _, tool := range []string{"bash", "sh", "env", "dirname", "sed", "grep", "cat", "tee", "chmod", "rm", "tail",
		"head", "mkdir", "sleep", "wc"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "bash"), filepath.Join(scripts, "ensure.sh"), "test-tools")
	policy := filepath.Join(root, "policy-rc.d")
	cmd.Env = []string{"PATH=" + bin, "ANSWERS=" + folder, "TASKBUS_POLICY_RC=" + policy, "TASKBUS_LOCK_PATIENCE=" +
		patience, "TASKBUS_LOCK_PAUSE=0.01", "TASKBUS_TEST_NO_PIKA=1", "TASKBUS_TEST_NO_NGINX=1"}
	out, err := cmd.CombinedOutput()
	if _, gone := os.Stat(policy); !os.IsNotExist(gone) {
		t.Errorf("the policy that forbids services was left behind: %v", gone)
	}
	content, readErr := os.ReadFile(filepath.Join(folder, "calls"))
	if readErr != nil {
		t.Fatal(readErr)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n"), string(out), err
}

// Another package manager at work is waited for, in both steps of an installation.
func TestSetupWaitsForThePackageManager(t *testing.T) {
	calls, said, err := ensurePromtool(t, "60", aptHeld, "ok\n", aptHeld, aptHeld, "ok\n")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	want := []string{"update", "update", "prometheus", "prometheus", "prometheus"} // the last of what is installed
	if len(calls) != len(want) {
		t.Fatalf("calls %q", calls)
	}
	for i := range want {
		if !strings.HasSuffix(calls[i], want[i]) {
			t.Errorf("call %d is %q, want %q", i+1, calls[i], want[i])
		}
	}
	if n := strings.Count(said,
		"another package manager is at work (process 4711 (unattended-upgr)): waiting for it"); n != 3 {
		t.Errorf("it says %d times for what it waits:\n%s", n, said)
	}
}

// It is not waited for without end, and any other fault is told at once.
func TestSetupSaysWhatAptCannot(t *testing.T) {
	calls, said, err := ensurePromtool(t, "0", aptHeld)
	if err == nil || len(calls) != 1 || !strings.Contains(said, "has held its lock for 0 s") ||
		!strings.Contains(said, "install it by hand") {
		t.Errorf("%v after %q:\n%s", err, calls, said)
	}
	calls, said, err = ensurePromtool(t, "60", "ok\n", "E: Unable to locate package prometheus\n")
	if err == nil || len(calls) != 2 || !strings.Contains(said, "Unable to locate package") {
		t.Errorf("%v after %q:\n%s", err, calls, said)
	}
}
