package tests

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// lineMost bounds a line of Go or Python, in characters; a tab is one.
const lineMost = 120

func TestLinesAreShort(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(d.Name()) > 2 && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".py":
			return nil
		}
		source, err := os.ReadFile(path)
		for _, where := range longLines(path, source) {
			t.Error(where)
		}
		seen++
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files read, %v", seen, err)
	}
}

func TestLongLinesAreFound(t *testing.T) {
	long := strings.Repeat("ä", lineMost)
	for source, want := range map[string]int{
		"package p\n\nvar a = 1":                              0,
		"// " + long[6:]:                                      0,
		"// " + long:                                          1,
		"package p\n\nvar a = `" + long + "`":                 1,
		"package p\n\nvar a = `\n" + long + "x\n`":            0,
		"package p\n\nvar a = `\n`; var b = \"" + long + "\"": 1,
	} {
		if found := longLines("x.go", []byte(source)); len(found) != want {
			t.Errorf("%q: %q, want %d", source, found, want)
		}
	}
}

// longLines tells which lines are too long, but for those inside a raw string of Go: they are data.
func longLines(path string, source []byte) (found []string) {
	data := make(map[int]bool)
	if filepath.Ext(path) == ".go" {
		data = rawLines(path, source)
	}
	number := 0
	for line := range strings.Lines(string(source)) {
		number++
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > lineMost && !data[number] {
			found = append(found, fmt.Sprintf("%s:%d has %d characters, of at most %d", path, number, n, lineMost))
		}
	}
	return found
}

// rawLines are the numbers of the lines that begin and end inside a raw string.
func rawLines(path string, source []byte) map[int]bool {
	file := token.NewFileSet().AddFile(path, -1, len(source))
	var tokens scanner.Scanner
	tokens.Init(file, source, nil, 0)
	data := make(map[int]bool)
	for pos, kind, text := tokens.Scan(); kind != token.EOF; pos, kind, text = tokens.Scan() {
		for i := range strings.Count(text, "\n") {
			if kind == token.STRING {
				data[file.Line(pos)+i] = i > 0
			}
		}
	}
	return data
}
