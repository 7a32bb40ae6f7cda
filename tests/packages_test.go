package tests

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asksFirst is how the documentation of a package begins.
var asksFirst = regexp.MustCompile(`^(?:Package|Command) \S+ (?:is |(?:answers|says)(?: one question)?:? )?`)

// synopsisMost bounds, in characters, what the table of packages says of one.
const synopsisMost = 240

// packageList is the first sentence of every package's documentation. Of packages below another one it has the names,
// in the row of that one; package coordinator, the vocabulary, has none.
func packageList(t *testing.T) string {
	var rows [][]string
	parts := make(map[string]string) // by the path of the whole
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "tests") || strings.HasPrefix(name, "examples") {
			continue
		}
		says := strings.TrimSuffix(asksFirst.ReplaceAllString(p.Doc, ""), ".")
		if question, _, more := strings.Cut(says, "? "); more { // go list ends a sentence at a full stop alone
			says = question + "?"
		}
		if quoted, ok := strings.CutPrefix(says, `"`); ok {
			says, _, _ = strings.Cut(quoted, `"`)
		}
		if says == "" || len(says) > synopsisMost {
			t.Errorf("%s: the first sentence of its documentation has %d characters beyond the name, want 1 to %d", name,
				len(says), synopsisMost)
		}
		of, part, below := strings.Cut(name, "/internal/")
		if !below {
			of, part = path.Dir(name), path.Base(name)
			below = of != "coordinator" && slices.ContainsFunc(rows, func(row []string) bool { return row[0] == of })
		}
		if below {
			parts[of] += ", " + part
		} else {
			rows = append(rows, []string{name, "", says})
		}
	}
	for _, row := range rows {
		row[1] = strings.Replace(parts[row[0]], ", ", "parts: ", 1)
		row[0] = "`" + row[0] + "`"
	}
	return listOf(rows)
}
