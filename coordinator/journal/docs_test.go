package journal

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// docs/journal.md lists the records and messages with their numbers.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/journal.md")
	if err != nil {
		t.Fatal(err)
	}
	capital := regexp.MustCompile(`\B[A-Z]`)
	expect := func(name string, kind int) {
		if row := fmt.Sprintf("| `%s` | %d |", name, kind); !strings.Contains(string(text), row) {
			t.Errorf("docs/journal.md has no row %s", row)
		}
	}
	for _, r := range recordTypes {
		var c coder
		c.begin(t0)
		c.record(reflect.New(reflect.TypeOf(r).Elem()).Interface().(coordinator.Record))
		name := reflect.TypeOf(r).Elem().Name()
		expect(strings.ToLower(capital.ReplaceAllString(name, "_$0")), int(c.out[0]))
	}
	for k := KindBatch; k <= lastKind; k++ {
		expect(k.String(), int(k))
	}
	for what, in := range map[string]bool{
		"the heading that GapError names": strings.Contains(string(text), "\n## When the journal cannot be read\n"),
		"the version of the format":       strings.Contains(string(text), fmt.Sprintf("| format version, %d |", FormatVersion)),
	} {
		if !in {
			t.Errorf("docs/journal.md lacks %s", what)
		}
	}
}
