package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/tests/support/clitest"
)

// vague are words of help that leave open what is meant.
var vague = regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|everybody|whoever|whom|anew|divided by)\b`)

func TestEveryCommandTeaches(t *testing.T) {
	clitest.EveryCommand(rootCommand(&newRig().App), func(c *cobra.Command) {
		t.Run(c.CommandPath(), func(t *testing.T) {
			if c.Short == "" || len(c.Long) < 80 {
				t.Errorf("help says too little: short %q, long %q", c.Short, c.Long)
			}
			r := newRig()
			if code := r.Run(t, append(strings.Fields(c.CommandPath())[1:], "--help")...); code != cli.ExitOK {
				t.Fatalf("--help exits with %d: %s", code, r.Err.String())
			}
			help := r.Out.String()
			if !strings.Contains(help, "Examples:") ||
				!strings.Contains(help, "  "+strings.Split(strings.TrimSpace(c.Example), "\n")[0]) {
				t.Errorf("--help shows no example:\n%s", help)
			}
			if word := vague.FindString(help); word != "" {
				t.Errorf("help says %q; name the agent, coordinator, operator or queue that is meant", word)
			}
			for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
				if len([]rune(line)) > 100 {
					t.Errorf("a line of more than 100 columns: %s", line)
				}
			}
		})
	})
}

// What is wrong with a command line is said in a few lines, however long it is.
func TestUsageErrorsAreShort(t *testing.T) {
	novel := strings.Repeat("x", 5000)
	for _, args := range [][]string{
		{novel}, {"--" + novel}, {"-o", novel, "version"}, {"explain", novel}, {"tasks", "--state", novel},
		{"tasks", "--limit", novel},
		{"tasks", "cancel", "t", "--reason", novel}, {"tasks", "cancel", "t", "--reason" + novel}, {"tasks", "cancel", novel},
		{"tasks", "cancel", "t", novel}, {"agents", novel}, {"agents", "drain", "a", "--wait", "--timeout", novel},
	} {
		r := newRig()
		if code := r.Run(t, args...); code != cli.ExitUsage {
			t.Errorf("%.40q: exit code %d, want %d", args, code, cli.ExitUsage)
		}
		if said := r.Err.String(); len(said) > 500 || !strings.Contains(said, "--help`") {
			t.Errorf("%.40q: %d bytes, or no hint: %.200s", args, len(said), said)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		args string
		env  map[string]string
		code int
		says string // on standard error
	}{
		{"version", "version", nil, cli.ExitOK, ""},
		{"no command shows help", "", nil, cli.ExitOK, ""},
		{"completion is cobra's own", "completion bash", nil, cli.ExitOK, ""},

		{"unknown command", "frobnicate", nil, cli.ExitUsage, "`taskbus --help`"},
		{"misspelt command", "stauts", nil, cli.ExitUsage, "did you mean status?"},
		{"misspelt order", "agents drian a", nil, cli.ExitUsage, "did you mean drain?"},
		{"unknown flag", "agents --frobnicate", nil, cli.ExitUsage, "`taskbus agents --help`"},
		{"an argument too many", "agents x", nil, cli.ExitUsage, ""},
		{"an argument too few", "explain", nil, cli.ExitUsage, "accepts 1 arg"},
		{"unknown output", "version -o xml", nil, cli.ExitUsage, "table or json"},
		{"check without a file", "check", nil, cli.ExitUsage, "--schema"},
		{"check with a file and --schema", "check --schema internal/setup/testdata/agents.yaml", nil, cli.ExitUsage, ""},
		{"explain of what is no id", "explain ../x", nil, cli.ExitUsage, "not a task id"},
		{"cancel of what is no id", "tasks cancel ../x", nil, cli.ExitUsage, "not a task id"},
		{"cancel of nothing", "tasks cancel", nil, cli.ExitUsage, "accepts 1 arg"},
		{"cancel with a novel for a reason", "tasks cancel t --reason " + strings.Repeat("x", 2049), nil, cli.ExitUsage,
			"2048"},
		{"drain of what is no id", "agents drain a/b", nil, cli.ExitUsage, "not an agent id"},
		{"a time limit without waiting", "agents drain a --timeout 1s", nil, cli.ExitUsage, "--wait"},
		{"a negative time limit", "agents drain a --wait --timeout -1s", nil, cli.ExitUsage, "negative"},
		{"a time limit without a unit", "agents drain a --wait --timeout 30", nil, cli.ExitUsage, "--timeout"},
		{"a question without a task", "whatif", nil, cli.ExitUsage, "accepts 1 arg"},
		{"statistics of one agent", "agents stats a", nil, cli.ExitUsage, "unknown command"},
		{"an agents' secret that is too short", "serve --config internal/setup/testdata/agents.yaml",
			map[string]string{"TASKBUS_AGENT_SECRET": "secret"}, cli.ExitConfig, "TASKBUS_AGENT_SECRET"},
		{"an unknown order", "agents destroy a", nil, cli.ExitUsage, "unknown command"},
		{"tasks of an unknown state", "tasks --state lost", nil, cli.ExitUsage, "pending"},
		{"tasks of what is no agent", "tasks --agent a/b", nil, cli.ExitUsage, "not an agent id"},
		{"tasks without limit", "tasks --limit 0", nil, cli.ExitUsage, "1 to 1000"},
		{"submit with flags that exclude each other", "submit --raw --validate-only -", nil, cli.ExitUsage, "exclude"},
		{"a URL that is none", "agents --url localhost:8551", nil, cli.ExitUsage, "--url is not the URL"},
		{"a URL that is none, from a variable", "agents", map[string]string{"TASKBUS_HTTP_URL": "://"}, cli.ExitUsage,
			"TASKBUS_HTTP_URL"},
		{"serve --http without a port", "serve --config internal/setup/testdata/agents.yaml --http localhost", nil,
			cli.ExitUsage, "host:port"},
		{"profiles for all", "serve --config internal/setup/testdata/agents.yaml --http 0.0.0.0:0 --pprof", nil,
			cli.ExitUsage, "loopback"},

		{"check of a faulty file", "check internal/setup/testdata/faulty.yaml", nil, cli.ExitFailed, ""},
		{"check of a missing file", "check internal/setup/testdata/nowhere.yaml", nil, cli.ExitFailed, "nowhere.yaml"},
		{"submit of a missing file", "submit internal/setup/testdata/nowhere.jsonl", nil, cli.ExitFailed, "nowhere.jsonl"},
		{"no answer", "health --url http://127.0.0.1:1", nil, cli.ExitFailed, "is it running"},
		{"the HTTP port cannot be had", "serve --config internal/setup/testdata/agents.yaml --http 192.0.2.1:1", nil,
			cli.ExitFailed,
			"--http or COORDINATOR_PORT"},

		{"serve with a faulty file", "serve --config internal/setup/testdata/faulty.yaml", nil, cli.ExitConfig,
			"faulty.yaml:"},
		{"serve without a file", "serve --config internal/setup/testdata/nowhere.yaml", nil, cli.ExitConfig, "--config"},
		{"an admin token that is too short", "serve --config internal/setup/testdata/agents.yaml",
			map[string]string{"TASKBUS_ADMIN_TOKEN": "secret"}, cli.ExitConfig, "TASKBUS_ADMIN_TOKEN"},
		{"an admin token that is too short, for a command", "agents cordon a",
			map[string]string{"TASKBUS_ADMIN_TOKEN": "secret"}, cli.ExitConfig, "TASKBUS_ADMIN_TOKEN"},
		{"a bad variable", "serve --config internal/setup/testdata/agents.yaml", map[string]string{"LOG_LEVEL": "loud"},
			cli.ExitConfig,
			"LOG_LEVEL"},
		{"a bad port", "serve --config internal/setup/testdata/agents.yaml", map[string]string{"COORDINATOR_PORT": "http"},
			cli.ExitConfig,
			"COORDINATOR_PORT"},
		{"a bad address", "serve --config internal/setup/testdata/agents.yaml",
			map[string]string{"TASKBUS_HTTP_BIND": "0.0.0.0:80"},
			cli.ExitConfig, "TASKBUS_HTTP_BIND"},
		{"topology with a faulty file", "topology show --config internal/setup/testdata/faulty.yaml", nil, cli.ExitConfig,
			"faults"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			for k, v := range tc.env {
				r.Env[k] = v
			}
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("taskbus %s: exit code %d, want %d; stderr: %s", tc.args, code, tc.code, r.Err.String())
			}
			text := r.Err.String()
			if !strings.Contains(text, tc.says) {
				t.Errorf("stderr lacks %q: %s", tc.says, text)
			}
			if tc.code == cli.ExitOK && text != "" {
				t.Errorf("stderr is not empty: %s", text)
			}
			if (tc.code == cli.ExitUsage || tc.code == cli.ExitFailed) && strings.Count(text, "\n") > 1 {
				t.Errorf("more than one line: %s", text)
			}
		})
	}
}

// A canary in the password of every kind of broker URL, good and bad: no command
// may print it.
func TestPasswordIsNeverPrinted(t *testing.T) {
	const canary = "c4n4ry-p4ssw0rd"
	for _, url := range []string{
		"amqp://user:" + canary + "@127.0.0.1:1/vhost",
		"amqp://user:" + canary + "@@127.0.0.1:1/",
		"amqp://user:" + canary + "/x@127.0.0.1:1/",
		"amqp://user:" + canary + "%zz@127.0.0.1:1/",
		"amqp://user:#" + canary + "@127.0.0.1/",
		"http://user:" + canary + "@127.0.0.1/",
		"amqp://user:" + canary,
	} {
		for _, args := range []string{
			"submit -", "submit --raw -o json -", "topology apply --config internal/setup/testdata/agents.yaml",
			"topology policies --config internal/setup/testdata/classic.yaml", "journal ls",
			"agents --url http://user:" + canary + "@127.0.0.1:1",
			"serve --config internal/setup/testdata/agents.yaml --http 192.0.2.1:1",
		} {
			r := newRig()
			r.OpenBus = newMainApp().OpenBus
			r.Env["RABBITMQ_URL"] = url
			r.In = strings.NewReader(`{"message_type":"task.assign","task_id":"t","task_type":"x","payload":{}}`)
			r.Run(t, strings.Fields(args)...)
			if text := r.Out.String() + r.Err.String(); strings.Contains(text, canary) {
				t.Errorf("taskbus %s with %s printed the password: %s", args, strings.ReplaceAll(url, canary, "…"), text)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	r := newRig()
	if code := r.Run(t, "version", "-o", "json"); code != cli.ExitOK || !strings.Contains(r.Out.String(), `"version"`) {
		t.Errorf("exit code %d, output %s", code, r.Out.String())
	}
}

// undocumented says what of a command line that a page shows does not exist; empty: all of it does. "a|b" in the place
// of a command stands for both.
func undocumented(line string) string {
	words := strings.Fields(line)
	for i, word := range words {
		for _, one := range strings.Split(word, "|")[1:] {
			if wrong := undocumented(strings.Join(append(slices.Clone(words[:i]), one), " ")); wrong != "" {
				return wrong
			}
		}
		words[i], _, _ = strings.Cut(word, "|")
	}
	c, rest, err := rootCommand(&newRig().App).Find(words)
	if err != nil {
		return err.Error()
	}
	if c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return c.CommandPath() + " has no command " + rest[0]
	}
	c.InitDefaultHelpFlag()
	flags := c.Flags()
	flags.AddFlagSet(c.InheritedFlags())
	for _, word := range rest {
		name, _, _ := strings.Cut(word, "=")
		long, isLong := strings.CutPrefix(name, "--")
		if isLong && long != "" && flags.Lookup(long) == nil ||
			!isLong && len(name) == 2 && name[0] == '-' && flags.ShorthandLookup(name[1:]) == nil {
			return c.CommandPath() + " has no " + name
		}
	}
	return ""
}

// Every command that a page shows, in a block or between backquotes, exists with its flags.
func TestCommandsInTheDocs(t *testing.T) {
	shown := regexp.MustCompile("(?m)(?:`|^ *(?:\\$ |time )?)taskbus ([a-z][^`\n]*)")
	n := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../deploy/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %q, %v", pattern, pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
				line, _, _ := strings.Cut(m[1], " #") // a comment
				n++
				if wrong := undocumented(line); wrong != "" {
					t.Errorf("%s: `taskbus %s`: %s", page, line, wrong)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("the pages show %d commands, want 100 or more: does the pattern still find them?", n)
	}
}

// The check has to be able to fail.
func TestUndocumented(t *testing.T) {
	for line, want := range map[string]string{
		"agents cordon|drain AGENT":    "",
		"agents cordon|drown AGENT":    "taskbus agents has no command drown",
		"tasks --state failed -o json": "",
		"tasks --stat=failed":          "taskbus tasks has no --stat",
		"tasks -x":                     "taskbus tasks has no -x",
		"coffee":                       "taskbus has no command coffee",
		"quota boost --help":           "",
	} {
		if got := undocumented(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
