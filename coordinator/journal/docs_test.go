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

// docs/reference/journal.md lists the records and messages with their numbers.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/journal.md")
	if err != nil {
		t.Fatal(err)
	}
	capital := regexp.MustCompile(`\B[A-Z]`)
	expect := func(name string, kind int) {
		if row := fmt.Sprintf("| `%s` | %d |", name, kind); !strings.Contains(string(text), row) {
			t.Errorf("docs/reference/journal.md has no row %s", row)
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
	if row := fmt.Sprintf("| format version, %d |", FormatVersion); !strings.Contains(string(text), row) {
		t.Errorf("docs/reference/journal.md has no row %s", row)
	}
	// The heading that GapError names.
	if text, err = os.ReadFile("../../docs/howto/backup.md"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n## When the journal cannot be read\n") {
		t.Error("docs/howto/backup.md does not say what to do when the journal cannot be read")
	}
}
