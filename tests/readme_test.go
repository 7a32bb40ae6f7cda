package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages for people are held to the project: what they show of it is compared
// with it, and their links lead somewhere.

// pages lists every Markdown file of the project by its path.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{
		"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "scripts/*.md",
		"examples/*.md", "examples/*/*.md", "examples/*/*/*.md", "clients/*/*.md",
	} {
		paths, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			found = append(found, strings.TrimPrefix(filepath.ToSlash(p), "../"))
		}
	}
	if !slices.Contains(found, "README.md") || !slices.Contains(found, "docs/ARCHITECTURE.md") {
		t.Fatalf("the pages were not found, only %v", found)
	}
	return found
}

// block is a fenced code block that a comment in the line before it marks, as in
// <!-- file: examples/python/agent.py -->.
type block struct{ kind, name, text string }

var markedBlock = regexp.MustCompile("(?m)^<!-- ([a-z]+): (\\S+) -->\n```[a-z]*\n((?s:.*?))^```$")

// blocks finds the marked code blocks of a page.
func blocks(t *testing.T, page, kind string) []block {
	t.Helper()
	var found []block
	for _, m := range markedBlock.FindAllStringSubmatch(projectFile(t, page), -1) {
		if m[1] == kind {
			found = append(found, block{m[1], m[2], m[3]})
		}
	}
	return found
}

func TestReadmeShowsTheExamples(t *testing.T) {
	shown := make(map[string]bool)
	for _, b := range blocks(t, "README.md", "file") {
		shown[b.name] = true
		if file := projectFile(t, b.name); b.text != file {
			t.Errorf("the block of README.md marked %s differs from that file; copy the file into it. First difference: %s",
				b.name, firstDifference(b.text, file))
		}
	}
	for _, want := range []string{
		"examples/go/producer/main.go", "examples/go/sdk-agent/main.go",
		"examples/python/sdk_producer.py", "examples/python/sdk_agent.py",
	} {
		if !shown[want] {
			t.Errorf("README.md does not show %s in a block marked <!-- file: %s -->", want, want)
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestExamplesPassVet(t *testing.T) {
	cmd := exec.Command("go", "vet", "./examples/...")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet ./examples/...: %v\n%s", err, out)
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	notInIDs = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the ids that GitHub gives a page's headings.
func anchors(text string) []string {
	var ids []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		id := notInIDs.ReplaceAllString(strings.ToLower(m[1]), "")
		ids = append(ids, strings.ReplaceAll(id, " ", "-"))
	}
	return ids
}

func TestLinksLeadSomewhere(t *testing.T) {
	headings := make(map[string][]string) // by page
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(projectFile(t, page), ""), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := page
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if anchor != "" && headings[target] == nil {
				headings[target] = anchors(projectFile(t, target))
			}
			if anchor != "" && !slices.Contains(headings[target], anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", page, m[1], target)
			}
		}
	}
}

// The checks of this file have to be able to fail.
func TestAnchorsAndLinks(t *testing.T) {
	got := anchors("# Taskbus\n## The promise, and `its` limits\n```\n# a comment\n```\n### TaskbusBlocked\n")
	if want := []string{"taskbus", "the-promise-and-its-limits", "taskbusblocked"}; !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
	if m := link.FindStringSubmatch("see [this](docs/a.md#b)"); m == nil || m[1] != "docs/a.md#b" {
		t.Errorf("link %q", m)
	}
	if d := firstDifference("a\nb\n", "a\nc\n"); d != `line 2: "b", want "c"` {
		t.Errorf("first difference: %s", d)
	}
}

// linksOf are the files of the project to which a page leads.
func linksOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, m := range link.FindAllStringSubmatch(projectFile(t, page), -1) {
		path, _, _ := strings.Cut(m[1], "#")
		found[filepath.ToSlash(filepath.Join(filepath.Dir(page), path))] = true
	}
	return found
}

// Every page of docs/ is in its index; a folder that has an index of its own is there as that.
func TestIndexOfTheDocs(t *testing.T) {
	const index = "docs/README.md"
	linked := linksOf(t, index)
	for _, page := range pages(t) {
		own := filepath.ToSlash(filepath.Join(filepath.Dir(page), "README.md"))
		if _, err := os.Stat(filepath.Join("..", own)); err == nil && own != index {
			page = own
		}
		if strings.HasPrefix(page, "docs/") && page != index && !linked[page] {
			t.Errorf("%s does not link to %s", index, page)
		}
	}
}

// Every script is in scripts/README.md, and what stands there exists.
func TestScriptsAreDescribed(t *testing.T) {
	files, err := filepath.Glob("../scripts/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	sameNames(t, "scripts/README.md", rows(t, "scripts/README.md", `[a-z-]+\.sh`), names)
}

// A reader gets through the first page in a few minutes, code included.
func TestReadmeIsShort(t *testing.T) {
	const most = 1200
	if words := len(strings.Fields(projectFile(t, "README.md"))); words > most {
		t.Errorf("README.md has %d words, want %d at most: what is not for the first success has its page in docs/", words,
			most)
	}
}
