package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What people copy ends by a second signal.
func TestAgentsAreShownWithASecondSignal(t *testing.T) {
	for _, page := range []string{"../docs/howto/write-an-agent.md", "../examples/go/sdk-agent/main.go",
		"example_test.go"} {
		text := readFile(t, page)
		const pattern = "ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)\n" +
			"\tcontext.AfterFunc(ctx, stop) // a second signal ends the process at once\n"
		if !strings.Contains(text, pattern) || strings.Count(text, "signal.NotifyContext") != 1 {
			t.Errorf("%s does not show, once:\n\t%s", page, pattern)
		}
	}
}

// The program in docs/howto/write-an-agent.md is one: as it stands there, the compiler takes it.
func TestDocumentedAgentCompiles(t *testing.T) {
	const page = "../docs/howto/write-an-agent.md"
	_, program, found := strings.Cut(readFile(t, page), "```go\n")
	program, _, ended := strings.Cut(program, "```\n")
	if !found || !ended {
		t.Fatalf("%s shows no Go program", page)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
