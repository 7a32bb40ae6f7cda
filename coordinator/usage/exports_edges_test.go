package usage

import (
	"strings"
	"testing"
)

// A spreadsheet writes a byte order mark, and quotes around all it writes: the quote of the first
// name is then the second character of the file.
func TestBillWithAMarkAndQuotes(t *testing.T) {
	for _, sep := range []string{",", ";"} {
		text := "\ufeff" + strings.ReplaceAll("\"Date\",\"Model\",\"Input tokens\"\r\n\"2026-11-22\",\"gpt-4o\",\"100\"\r\n", ",", sep)
		b := readBill(t, text, BillOptions{})
		if r := b.rows[Key{Day: "2026-11-22", Model: "gpt-4o"}]; b.Lines != 1 || r == nil || r.measures[1] != 100 {
			t.Errorf("with %q: %+v", sep, b)
		}
	}
}

// The sums of a bill of credits end where those of costs do, and never turn round.
func TestSumOfCredits(t *testing.T) {
	c := Counts{Cost: -Most}
	c.Add(&Counts{Cost: -Most})
	if c.Cost != -Most {
		t.Errorf("-%d twice is %d", Most, c.Cost)
	}
}
