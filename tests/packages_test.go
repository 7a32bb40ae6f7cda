package tests

import (
	"regexp"
	"strings"
	"testing"
)

// asksFirst is how the documentation of a package begins.
var asksFirst = regexp.MustCompile(`^(?:Package|Command) \S+ (?:is |(?:answers|says)(?: one question)?:? )?`)

// synopsisMost bounds, in characters, what the table of packages says of one.
const synopsisMost = 240

// packageList is the first sentence of every package's documentation. Of internal packages it has the names, in the row
// of the package that they are the parts of.
func packageList(t *testing.T) string {
	var rows [][]string
	parts := make(map[string]string) // by the path before internal
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
		if of, part, internal := strings.Cut(name, "/internal/"); internal {
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
