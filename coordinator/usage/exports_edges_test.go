package usage

import (
	"strings"
	"testing"
)

// A spreadsheet writes a byte order mark, and quotes around all it writes: the quote of the first
// name is then the second character of the file.
func TestBillWithAMarkAndQuotes(t *testing.T) {
	for _, sep := range []string{",", ";"} {
		text := "\ufeff" + strings.ReplaceAll("\"Date\",\"Model\",\"Input tokens\"\r\n\"2026-11-22\",\"gpt-4o\",\"100\"\r\n",
			",", sep)
		b := readBill(t, text, BillOptions{})
		if r := b.rows[Key{Day: "2026-11-22", Model: "gpt-4o"}]; b.Lines != 1 || r == nil || r.measures[1] != 100 {
			t.Errorf("with %q: %+v", sep, b)
		}
	}
}

// What divides columns is what their names are divided by: not what stands within one of them, and
// not what the first line has, if it is empty.
func TestSeparatorsOfBills(t *testing.T) {
	for name, text := range map[string]string{
		"tabs":                        "date\tregion\tcost\n2026-11-22\t\t5\n",
		"a comma within a name":       "\"date\";\"region, zone\";\"cost\"\n2026-11-22;eu;5\n",
		"a semicolon within a name":   "date,a;b;c,cost\n2026-11-22,x,5\n",
		"empty lines before":          "\r\n\r\ndate;cost\r\n2026-11-22;5\r\n",
		"a line end within a name":    "date;\"region,\nzone, or\nworld\";cost\n2026-11-22;eu;5\n",
		"one column of all, and more": "cost,date\n5,2026-11-22\n",
	} {
		b, err := ReadBill([]byte(text), BillOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r := b.rows[Key{Day: "2026-11-22"}]; r == nil || r.nano != 5*billion {
			t.Errorf("%s: %+v", name, b)
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
