package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is recorded of a configuration must give the same decisions when it is read
// again: the version stands for everything that counts.
func TestSourceReadsAsTheSameConfiguration(t *testing.T) {
	files, err := filepath.Glob("testdata/valid-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no valid files to try: %v", err)
	}
	for _, file := range append(files, "agents.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := mustParse(t, string(text))
			sameAgain(t, c)
			for _, override := range c.Policy().StrategyNames() {
				o, err := parse(text, file, override)
				if err != nil {
					t.Fatal(err)
				}
				if got := sameAgain(t, o).Policy().Strategy; got != override {
					t.Errorf("read again, the default is %s, want %s of the environment", got, override)
				}
			}
		})
	}
}

func sameAgain(t *testing.T, c *Config) *Config {
	t.Helper()
	again, err := Parse([]byte(c.Policy().Source), "source")
	if err != nil {
		t.Fatalf("%v in:\n%s", err, c.Policy().Source)
	}
	if got, want := again.Policy().Version, c.Policy().Version; got != want {
		t.Errorf("version %s, want %s, of:\n%s", got, want, c.Policy().Source)
	}
	if got, want := again.Policy().Source, c.Policy().Source; got != want {
		t.Errorf("the source of the source is\n%s\nwant it unchanged:\n%s", got, want)
	}
	return again
}

// Comments are where people keep passwords, and nobody expects them in a recording.
func TestSourceHoldsNoComments(t *testing.T) {
	c := mustParse(t, `# user: hunter2
agents: # hunter2
  # hunter2
  a: {max_concurrent_tasks: 1} # hunter2
  b:
    # hunter2
    max_concurrent_tasks: 2
    capabilities: # hunter2
      # hunter2
      - "hunter#3" # hunter2
    # hunter2
# hunter2
`)
	source := c.Policy().Source
	if strings.Contains(source, "hunter2") {
		t.Errorf("the comments are still there:\n%s", source)
	}
	if !strings.Contains(source, "hunter#3") {
		t.Errorf("a capability that looks like a comment is missing:\n%s", source)
	}
}
