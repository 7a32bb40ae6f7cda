package tests

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scripts/test.sh runs some packages without the race detector, because nothing in them
// runs side by side. This guard holds that list to the code: neither such a package nor
// what it imports of this module starts a goroutine, and its tests do so only where their
// name says it, and then run with the race detector as well.

// anotherGoroutine is in the names of tests that may start one.
const anotherGoroutine = "AnotherGoroutine"

var testsAnotherGoroutine = regexp.MustCompile(`(?m)^func Test\w*` + anotherGoroutine)

// starters are the names of functions and methods that start a goroutine, or have their
// caller run in one: those of sync.WaitGroup and errgroup, of time, context and testing.
var starters = []string{"Go", "AfterFunc", "Parallel", "RunParallel"}

func TestRaceGuard(t *testing.T) {
	listed := withoutRaceDetector(t, "one_goroutine")
	direct := make(map[string]bool)
	for i, name := range listed {
		if i > 0 && name <= listed[i-1] {
			t.Errorf("%s stands behind %s in the list", name, listed[i-1])
		}
		direct[module+name] = true
	}
	for _, dep := range listDeps(t, listed) {
		files, err := filepath.Glob(filepath.Join(dep.dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("the sources of %s: %v, %v", dep.path, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") && !direct[dep.path] {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found, err := goroutines(file, source)
			if err != nil {
				t.Fatal(err)
			}
			if again := "-run " + anotherGoroutine + " ./" + strings.TrimPrefix(dep.path, module); direct[dep.path] &&
				testsAnotherGoroutine.Match(source) && !strings.Contains(projectFile(t, "scripts/test.sh"), again) {
				t.Errorf("%s has a test that starts a goroutine, and scripts/test.sh does not run it with the race detector (%s)",
					file, again)
			}
			for _, where := range found {
				t.Errorf(
					"%s starts a goroutine, and scripts/test.sh tests %s without the race detector: take what needs it off the "+
						"list there", where, dep.path)
			}
		}
	}
}

func TestRaceGuardFindsGoroutines(t *testing.T) {
	for source, want := range map[string]int{
		`func f() { g() }`:                                                      0,
		`func f() { go g() }`:                                                   1,
		`func f() { w.Go(g); time.AfterFunc(0, g) }`:                            2,
		`func TestX(t *testing.T) { t.Parallel() }`:                             1,
		`func TestImageIsForAnotherGoroutine(t *testing.T) { go g(); w.Go(g)}`:  0,
		`func f() { go g() }; func TestAnotherGoroutine(*testing.T) { go g() }`: 1,
		`var v = func() { go g() }`:                                             1,
	} {
		found, err := goroutines("x_test.go", []byte("package p\n"+source))
		if err != nil || len(found) != want {
			t.Errorf("%s: %q, %v; want %d", source, found, err, want)
		}
	}
}

// goroutines tells where a file starts any, but for the tests that say so.
func goroutines(file string, source []byte) (found []string, err error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		starts := false
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasSuffix(file, "_test.go") && strings.HasPrefix(n.Name.Name, "Test") &&
				strings.Contains(n.Name.Name, anotherGoroutine) {
				return false
			}
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			starts = slices.Contains(starters, n.Sel.Name)
		}
		if starts {
			found = append(found, fset.Position(n.Pos()).String())
		}
		return true
	})
	return found, nil
}

// Of other packages it runs some tests so: these are there, and start no goroutine themselves.
func TestRaceGuardOfTests(t *testing.T) {
	for _, listed := range withoutRaceDetector(t, "one_goroutine_tests") {
		folder, name, _ := strings.Cut(listed, ":")
		files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, body, has := bytes.Cut(source, []byte("\nfunc "+name+"(t *testing.T) {"))
			if !has {
				continue
			}
			found = true
			body, _, _ = bytes.Cut(body, []byte("\n}\n"))
			where, err := goroutines(file, slices.Concat([]byte("package p\nfunc f() {"), body, []byte("\n}\n")))
			if err != nil || len(where) > 0 {
				t.Errorf("%s starts a goroutine, and scripts/test.sh runs it without the race detector (%v)", listed, err)
			}
		}
		if !found {
			t.Errorf("scripts/test.sh lists %s, which is not there", listed)
		}
	}
}

// withoutRaceDetector are what a list of scripts/test.sh names: packages by their paths in the
// module, and tests of them.
func withoutRaceDetector(t *testing.T, name string) []string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "scripts", "test.sh"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)\n` + name + `=\(\n(.*?)\n\)`).FindSubmatch(script)
	if list == nil {
		t.Fatalf("scripts/test.sh has no list %s=( … )", name)
	}
	return strings.Fields(string(list[1]))
}

type dependency struct{ path, dir string }

// listDeps are these packages and all of this module that they and their tests import.
func listDeps(t *testing.T, names []string) (deps []dependency) {
	t.Helper()
	args := []string{"list", "-deps", "-test", "-f", "{{if not .ForTest}}{{.ImportPath}} {{.Dir}}{{end}}"}
	for _, name := range names {
		args = append(args, module+name)
	}
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("go list: %w\n%s", err, stderr.String()))
	}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(path, module) && !strings.HasSuffix(path, ".test") {
			deps = append(deps, dependency{path, dir})
		}
	}
	return deps
}
