package usage

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func readBill(t *testing.T, text string, o BillOptions) *Bill {
	t.Helper()
	b, err := ReadBill([]byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadBill(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          BillOptions
		want       map[Key]billed
		has        string
		ignored    []string
	}{
		{"plain", "date,provider,model,input_tokens,output_tokens,requests,cost_usd\n2026-11-22,openai,gpt-4o,100,20,2," +
			"0.0125\n", BillOptions{},
			map[Key]billed{{Day: "2026-11-22", Provider: "openai", Model: "gpt-4o"}: {[4]int64{2, 100, 20, 0}, 12_500_000}},
			"date provider model requests input_tokens output_tokens cost_usd", nil},
		// Two lines of one key: 100 + 5; and an export's own names, with a byte order mark, semicolons and quotes.
		{"other names", "\ufeffUsage Date;Model Name;API Key;Prompt Tokens;Region;Cost (USD)\r\n2026-11-22T23:59:59Z;" +
			"\"gpt-4o\";k1;100;eu;$1.5\r\n2026-11-22;gpt-4o;k1;5;us;\r\n", BillOptions{Provider: "openai"},
			map[Key]billed{{Day: "2026-11-22", Provider: "openai", Model: "gpt-4o", Agent: "k1"}: {[4]int64{0, 105, 0, 0},
				1_500_000_000}},
			"date provider model agent input_tokens cost_usd", []string{"Region"}},
		{"names that are said", "when,what,who,cost,amount\n1795305599,gpt-4o-2024-08-06,sk-1,7,-0.0000000015\n", BillOptions{
			Columns: map[string]string{"date": "When", "model": "what", "agent": "who", "cost_usd": "amount"},
			Models:  map[string]string{"gpt-4o-2024-08-06": "gpt-4o"}, Agents: map[string]string{"sk-1": "agent-1"},
		}, // a credit of 1.5 billionths is rounded to 2; "cost" is not what was said to be the cost
			map[Key]billed{{Day: "2026-11-21", Model: "gpt-4o", Agent: "agent-1"}: {nano: -2}},
			"date model agent cost_usd", []string{"cost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := readBill(t, c.text, c.o)
			got := map[Key]billed{}
			for k, v := range b.rows {
				got[k] = *v
			}
			if !reflect.DeepEqual(got, c.want) || strings.Join(b.Has, " ") != c.has || !slices.Equal(b.Ignored, c.ignored) {
				t.Errorf("got %+v, %v, ignored %q\nwant %+v", got, b.Has, b.Ignored, c.want)
			}
		})
	}
}

// What is wrong is told with its line, as many as there are up to 20.
func TestBillsThatAreRefused(t *testing.T) {
	const head = "date,model,input_tokens,cost_usd\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "line 1: it is no CSV file"},
		{"not text", "date,cost_usd\n\xff\xfe,1\n", "line 1: it is no CSV file in UTF-8"},
		{"no lines", head, "line 2: there are no lines below"},
		{"no date", "model,cost_usd\nx,1\n", "line 1: there is no column date; the columns are model, cost_usd"},
		{"nothing to compare", "date,model\n2026-11-22,x\n", "line 1: there is nothing to compare"},
		{"one column twice", "date,cost,amount\n2026-11-22,1,1\n",
			`line 1: the columns "cost" and "amount" both mean cost_usd`},
		{"a date", head + "2026-11-22,x,1,1\n22/11/2026,x,1,1\n", `line 3: "22/11/2026" is not a date such as 2026-11-22`},
		{"no such day", head + "2026-02-30,x,1,1\n", "line 2:"},
		{"a fraction of a token", head + "2026-11-22,x,1.5,1\n",
			`line 2: input_tokens is "1.5": it must be a number such as 1250`},
		{"negative tokens", head + "2026-11-22,x,-1,1\n", `line 2: input_tokens is "-1"`},
		{"too many tokens", head + "2026-11-22,x,1234567890123456,1\n", "line 2: input_tokens is"},
		{"cost with an exponent", head + "2026-11-22,x,1,1e9\n",
			`line 2: cost_usd is "1e9": it must be a number such as 0.0125, in US dollars`},
		{"cost of another country", head + "2026-11-22,x,1,\"1,50\"\n", `line 2: cost_usd is "1,50"`},
		{"not a number", head + "2026-11-22,x,1,NaN\n", "line 2: cost_usd"},
		{"too few fields", head + "2026-11-22,x\n2026-11-23,x,1,1,1\n",
			"line 2: wrong number of fields; line 3: wrong number of fields"},
		{"a quote without end", head + "2026-11-22,x,1,1\n2026-11-22,\"x,1,1\n", "line "},
		{"too long", head + "2026-11-22," + strings.Repeat("x", 201) + ",1,1\n", "line 2: field 2 has more than 200 bytes"},
		{"a sum beyond belief", head + strings.Repeat("2026-11-22,x,999999999999999,1\n", 2),
			"line 3: its input_tokens add up to more than"},
		{"a fortune", head + strings.Repeat("2026-11-22,x,1,99999999\n", 2),
			"line 3: its costs add up to more than 100,000,000"},
		{"a web page", "<!DOCTYPE html>\n<html>\n", "line 1: there is no column date"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadBill([]byte(c.text), BillOptions{})
			var faults *BillFaults
			if !errors.As(err, &faults) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	_, err := ReadBill([]byte(head+strings.Repeat("x,y,z,0\n", 50)), BillOptions{})
	var faults *BillFaults
	if !errors.As(err, &faults) || len(faults.List) != maxBillFaults || faults.List[19].Line != 21 {
		t.Errorf("got %v", err)
	}
	_, err = ReadBill([]byte(head+strings.Repeat("2026-11-22,x,1,0\n", MaxBillLines+1)), BillOptions{})
	if err == nil || !strings.Contains(err.Error(), "more than 200000 lines") {
		t.Errorf("got %v", err)
	}
	_, err = ReadBill([]byte(head+"2026-11-22,x,1,1\n"), BillOptions{Columns: map[string]string{"agent": "key"}})
	if err == nil || err.Error() != `line 1: there is no column "key", which is to be agent` {
		t.Errorf("got %v", err)
	}
}

// Whatever bytes come, they are read or refused.
func TestBillsOfAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(date,cost_usd,model\n)?([a-z0-9,;."$\n -]|\x00|\xff){0,80}`).Draw(t, "text")
		b, err := ReadBill([]byte(text), BillOptions{})
		if (b == nil) == (err == nil) {
			t.Fatalf("%v, %v", b, err)
		}
	})
}

func use(day, agent, model string, input, cost int64) Row {
	return Row{Key{Day: day, Group: "g", Agent: agent, Provider: "openai", Model: model, Source: SourceTask},
		Counts{Requests: 1, InputTokens: input, TotalTokens: input, Cost: cost, Settled: 1}}
}

func TestReconcile(t *testing.T) {
	rows := []Row{
		use("2026-11-20", "a", "gpt-4o", 5, 5), // before the bill
		use("2026-11-21", "a", "gpt-4o", 1000, 10_000),
		use("2026-11-21", "b", "gpt-4o", 200, 2_000),
		use("2026-11-22", "a", "gpt-4o", 300, 3_000),
		use("2026-11-22", "a", "mini", 50, 500), // not on the bill
		{Key{Day: "2026-11-22", Provider: "anthropic", Model: "claude", Source: SourceTask},
			Counts{InputTokens: 1}}, // another provider's
		{Key{Day: "2026-11-22"}, Counts{InputTokens: 70, Settled: 1}}, // of a group that is not known
	}
	bill := readBill(t, `date,provider,model,input_tokens,cost_usd
2026-11-21,openai,gpt-4o,1200,0.0119995
2026-11-22,openai,gpt-4o,400,0.004
2026-11-22,openai,o9,7,0
`, BillOptions{})
	r := Reconcile(rows, bill, ByDay, "", "", Tolerance{Percent: 1, Cost: 0})
	// On the 21st 1,000 + 200 tokens, and 12,000 micro-USD against 12,000 rounded.
	diff := func(day, model, measure string, ours, theirs int64, onlyOurs, onlyBill bool) Difference {
		return Difference{Key{Day: day, Provider: "openai", Model: model}, measure, ours, theirs, onlyOurs, onlyBill}
	}
	want := []Difference{
		diff("2026-11-22", "gpt-4o", "input_tokens", 300, 400, false, false),
		diff("2026-11-22", "gpt-4o", "cost_usd", 3000, 4000, false, false),
		diff("2026-11-22", "mini", "input_tokens", 50, 0, true, false),
		diff("2026-11-22", "mini", "cost_usd", 500, 0, true, false),
		diff("2026-11-22", "o9", "input_tokens", 0, 7, false, true),
	}
	if !reflect.DeepEqual(r.Differences, want) {
		t.Errorf("\n got %+v\nwant %+v", r.Differences, want)
	}
	if r.From != "2026-11-21" || r.To != "2026-11-22" || r.Keys != 4 || r.Differ != 3 || r.Lost.InputTokens != 70 {
		t.Errorf("got %+v", r)
	}
	// 1,000 + 200 + 300 + 50 and 1,200 + 400 + 7.
	if tokens := r.Totals[0]; tokens != (Compared{"input_tokens", 1550, 1607}) {
		t.Errorf("in all %+v", tokens)
	}
	if d := r.Differences[0]; d.Absolute() != -100 || d.Relative() != -0.25 { // a quarter of the 400 billed
		t.Errorf("%d, %v", d.Absolute(), d.Relative())
	}
	if d := r.Differences[2]; !math.IsInf(d.Relative(), 1) {
		t.Errorf("%v", d.Relative())
	}
	// In all, by provider and model, the bill has 1,600 tokens and we 1,500 of gpt-4o: 6.25 %.
	if r := Reconcile(rows, bill, ByTotal, "", "", Tolerance{Percent: 6.25, Tokens: 50,
		Cost: 500}); len(r.Differences) != 0 {
		t.Errorf("got %+v", r.Differences)
	}
	if r := Reconcile(rows, bill, ByMonth, "", "", Tolerance{Percent: 6.2, Tokens: 50,
		Cost: 1000}); len(r.Differences) != 1 || r.Differences[0].Day != "2026-11" {
		t.Errorf("got %+v", r.Differences)
	}
	// From the 20th on there are 5 tokens more that the bill does not have.
	if r := Reconcile(rows, bill, ByDay, "2026-11-20", "2026-11-21", Tolerance{}); len(r.Differences) != 2 ||
		!r.Differences[0].OnlyOurs {
		t.Errorf("got %+v", r.Differences)
	}
}

// A bill that says what the history says never differs, whatever it tells apart.
func TestReconcileWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []Row
		text := "date,model,api_key,input_tokens,cost_usd\n"
		for range rapid.IntRange(1, 20).Draw(t, "rows") {
			day := rapid.SampledFrom([]string{"2026-11-21", "2026-11-22"}).Draw(t, "day")
			agent, model := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"),
				rapid.SampledFrom([]string{"x", "y"}).Draw(t, "model")
			n := int64(rapid.IntRange(0, 999_999).Draw(t, "tokens"))
			rows = append(rows, use(day, agent, model, n, n))
			text += day + "," + model + "," + agent + "," + itoa(n) + "," + "0." + pad(n) + "\n"
		}
		b, err := ReadBill([]byte(text), BillOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []By{ByDay, ByMonth, ByTotal} {
			if r := Reconcile(rows, b, by, "", "", Tolerance{}); len(r.Differences) > 0 {
				t.Fatalf("by %s: %+v", by, r.Differences)
			}
		}
	})
}

func itoa(n int64) string { return strings.TrimLeft(pad(n), "0") + map[bool]string{true: "0"}[n == 0] }

// pad is a number below a million with six digits.
func pad(n int64) string {
	digits := []byte("000000")
	for i, rest := 5, n; i >= 0; i, rest = i-1, rest/10 {
		digits[i] = byte('0' + rest%10)
	}
	return string(digits)
}

// Bills come from outside: whatever they are, they are read or refused, and what is read is
// within bounds.
func FuzzReadBill(f *testing.F) {
	f.Add([]byte("date,provider,model,agent,input_tokens,output_tokens,requests,cost_usd\n2026-11-22,openai,gpt-4o,a,1," +
		"2,3,0.5\n"))
	f.Add([]byte("\ufeffUsage Date;Cost (USD)\n\"2026-11-22T00:00:00Z\";-$1.000000001\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := ReadBill(text, BillOptions{})
		if (b == nil) == (err == nil) {
			t.Fatalf("%v, %v", b, err)
		}
		if b == nil {
			return
		}
		if b.Lines == 0 || b.From > b.To || len(b.From) != len("2026-11-22") {
			t.Fatalf("%+v", b)
		}
		for k, v := range b.rows {
			for _, n := range v.measures {
				if n < 0 || n > Most {
					t.Fatalf("%+v: %d", k, n)
				}
			}
		}
		Reconcile(nil, b, ByDay, "", "", Tolerance{})
	})
}

func TestDaysOfABill(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-22":                  "2026-11-22",
		"2026-09-28T00:00:00+08:00":   "2026-09-28", // a biller's midnight; in UTC it is the 27th
		"2026-09-28T23:30:00.5-07:00": "2026-09-28",
		"2026-09-28 00:00":            "2026-09-28",
		"1790553600":                  "2026-09-28", // its midnight in UTC
		"1790553599":                  "2026-09-27",
		"28.09.2026":                  "",
	} {
		if got, ok := dayOf(text); got != want || ok != (want != "") {
			t.Errorf("%s is of %q, %t; want %q", text, got, ok, want)
		}
	}
}
