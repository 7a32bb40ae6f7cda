package journal

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
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
	for number, r := range recordTypes[1:] {
		name := reflect.TypeOf(r).Elem().Name()
		expect(strings.ToLower(capital.ReplaceAllString(name, "_$0")), number+1)
	}
	for k := KindBatch; k <= lastKind; k++ {
		expect(k.String(), int(k))
	}
	if says := fmt.Sprintf("\nFormat version %d;", FormatVersion); !strings.Contains(string(text), says) {
		t.Errorf("docs/reference/journal.md does not say %q", says)
	}
	// The heading that GapError names.
	if text, err = os.ReadFile("../../docs/howto/backup.md"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n## When the journal cannot be read\n") {
		t.Error("docs/howto/backup.md does not say what to do when the journal cannot be read")
	}
}
