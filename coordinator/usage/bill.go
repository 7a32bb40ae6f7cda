package usage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator/pattern"
)

// The columns of a bill. Date is needed, and at least one of the measures.
const (
	ColumnDate     = "date"
	ColumnProvider = "provider"
	ColumnModel    = "model"
	ColumnGroup    = "group"
	ColumnAgent    = "agent"
)

// Measures are the columns that are compared, in the order in which they are reported.
var Measures = []string{"requests", "input_tokens", "output_tokens", "total_tokens", "cost_usd"}

// aliases are other names of the columns. Names are compared in small letters, with "_" for
// blanks, "-" and brackets.
var aliases = map[string]string{
	"day": ColumnDate, "usage_date": ColumnDate, "usage_date_utc": ColumnDate, "start_time": ColumnDate,
	"timestamp":  ColumnDate,
	"vendor":     ColumnProvider,
	"model_name": ColumnModel, "model_version": ColumnModel, "model_id": ColumnModel,
	"group_id": ColumnGroup, "project": ColumnGroup, "project_name": ColumnGroup, "project_id": ColumnGroup,
	"workspace": ColumnGroup, "workspace_name": ColumnGroup, "workspace_id": ColumnGroup,
	"agent_id": ColumnAgent, "api_key": ColumnAgent, "api_key_name": ColumnAgent, "api_key_id": ColumnAgent,
	"num_requests": "requests", "num_model_requests": "requests", "request_count": "requests", "n_requests": "requests",
	"prompt_tokens": "input_tokens", "n_context_tokens_total": "input_tokens", "usage_input_tokens": "input_tokens",
	"completion_tokens": "output_tokens", "n_generated_tokens_total": "output_tokens",
	"usage_output_tokens": "output_tokens",
	"tokens":              "total_tokens",
	"cost":                "cost_usd", "amount": "cost_usd", "amount_usd": "cost_usd", "amount_value": "cost_usd",
	"total_cost": "cost_usd", "cost_in_usd": "cost_usd",
	"amount_currency": columnCurrency, "cost_currency": columnCurrency,
}

// second are names that stand back where another column has the same meaning: exports have an id
// beside a name, and the name is what people write.
var second = []string{"project_id", "workspace_id", "api_key_id", "group_id", "agent_id"}

// parts are columns that are added up, because the history does not distinguish them.
var parts = map[string]string{
	"usage_input_tokens_no_cache": "input_tokens", "usage_input_tokens_cache_read": "input_tokens",
	"usage_input_tokens_cache_write":    "input_tokens",
	"usage_input_tokens_cache_write_5m": "input_tokens", "usage_input_tokens_cache_write_1h": "input_tokens",
}

// columnCurrency is no column to compare: what it says must be US dollars.
const columnCurrency = "currency"

// The limits of a bill.
const (
	MaxBillLines  = 200_000
	maxBillFaults = 20
	maxBillCell   = 200
)

// BillOptions say how a bill is to be read.
type BillOptions struct {
	// Columns maps columns to the names they have in the bill, for those that are named otherwise.
	Columns map[string]string
	// Provider of all lines, for a bill that does not say; empty: it does, or it is not known.
	Provider string
	// Models, Agents and Groups map names in the bill to those of the history: a model with a date
	// in its name, an API key.
	Models, Agents, Groups map[string]string
}

// Bill is a provider's bill: what it counts, by whatever it distinguishes.
type Bill struct {
	// Has are the columns that it has, in the order of this package, but for those of a provider,
	// model, group or agent that are empty in every line.
	Has []string
	// Ignored are its other columns, as it names them.
	Ignored []string
	// From, To are its first and last day.
	From, To string
	Lines    int
	// rows by key, with Source empty; what a column that it does not have would say is empty, 0.
	rows map[Key]*billed
}

// billed is what a bill says of one key. Cost is in billionths of a US dollar: per-request costs
// are below a millionth.
type billed struct {
	measures [4]int64
	nano     int64
}

// BillFaults are what is wrong with a bill, at most 20 of them.
type BillFaults struct{ List []BillFault }

// BillFault is what is wrong with a line, from 1 on, which is that of the names of the columns.
type BillFault struct {
	Line int
	Text string
}

func (f *BillFaults) Error() string {
	texts := make([]string, len(f.List))
	for i, x := range f.List {
		texts[i] = fmt.Sprintf("line %d: %s", x.Line, x.Text)
	}
	return strings.Join(texts, "; ")
}

func (f *BillFaults) add(line int, format string, args ...any) {
	if len(f.List) < maxBillFaults {
		f.List = append(f.List, BillFault{line, fmt.Sprintf(format, args...)})
	}
}

// known are all columns there are.
func known() []string {
	return append([]string{ColumnDate, ColumnProvider, ColumnModel, ColumnGroup, ColumnAgent}, Measures...)
}

// KnownColumn reports whether there is a column of that name.
func KnownColumn(name string) bool { return slices.Contains(known(), name) }

// plain is how names of columns are compared.
func plain(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '-', '.':
			return '_'
		case '(', ')', '[', ']', '$':
			return -1
		}
		return r
	}, name)
	return name
}

// layout says in which field of a line each column is; several fields are parts of it.
func layout(names []string, o *BillOptions, faults *BillFaults) (at map[string][]int, ignored []string) {
	at = make(map[string][]int)
	wanted := make(map[string]string, len(o.Columns)) // by the name in the bill
	for column, name := range o.Columns {
		wanted[plain(name)] = column
	}
	for i, name := range names {
		column := meaning(name, wanted, o)
		if column == "" {
			ignored = append(ignored, short(name))
			continue
		}
		before, twice := at[column]
		switch {
		case !twice:
			at[column] = []int{i}
		case parts[plain(name)] == column && parts[plain(names[before[0]])] == column:
			at[column] = append(before, i)
		case slices.Contains(second, plain(name)):
			ignored = append(ignored, short(name))
		case slices.Contains(second, plain(names[before[0]])):
			ignored = append(ignored, short(names[before[0]]))
			at[column] = []int{i}
		default:
			faults.add(1, "the columns %q and %q both mean %s; say which it is", short(names[before[0]]), short(name), column)
		}
	}
	for _, column := range known() {
		if name, ok := o.Columns[column]; ok {
			if _, found := at[column]; !found {
				faults.add(1, "there is no column %q, which is to be %s", short(name), column)
			}
		}
	}
	if _, ok := at[ColumnDate]; !ok {
		faults.add(1, "there is no column date; the columns are %s", short(strings.Join(names, ", ")))
	}
	if !slices.ContainsFunc(Measures, func(m string) bool { _, ok := at[m]; return ok }) {
		faults.add(1, "there is nothing to compare: none of the columns %s", strings.Join(Measures, ", "))
	}
	return at, ignored
}

// meaning is which column a name of the bill stands for; empty: none. wanted are those that were
// said, by their names in the bill.
func meaning(name string, wanted map[string]string, o *BillOptions) string {
	column := plain(name)
	if c, ok := wanted[column]; ok {
		return c
	}
	if c, ok := aliases[column]; ok {
		column = c
	} else if c, ok := parts[column]; ok {
		column = c
	}
	if _, elsewhere := o.Columns[column]; elsewhere { // another one was named for it
		return ""
	}
	if column != columnCurrency && !KnownColumn(column) {
		return ""
	}
	return column
}

// short is a text of the bill as it may be repeated.
func short(s string) string {
	s = word(s)
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

var (
	wholeNumber  = pattern.New(`^[0-9]{1,15}(\.0{1,9})?$`)
	dollarNumber = pattern.New(`^-?\$?([0-9]{1,9})(\.([0-9]{0,60}))?$`)
	unixSeconds  = pattern.New(`^[0-9]{9,11}$`)
)

// dayOf reads a date: 2026-11-22, a time of RFC 3339 or like it, or seconds since 1970, in UTC. A time
// with an offset is of the day that is written: that is the biller's day.
func dayOf(text string) (string, bool) {
	if unixSeconds.MatchString(text) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly), err == nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05",
		"2006-01-02 15:04", "2006-01-02T15:04"} {
		if at, err := time.Parse(form, text); err == nil {
			return at.Format(time.DateOnly), true
		}
	}
	return "", false
}

// nanoOf reads US dollars as billionths, rounded. Credits are negative.
func nanoOf(text string) (int64, bool) {
	m := dollarNumber.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	fraction := (m[3] + "0000000000")[:10] // one digit more, to round by
	whole, err := strconv.ParseInt(m[1]+fraction[:9], 10, 64)
	if err != nil {
		return 0, false
	}
	if fraction[9] >= '5' {
		whole++
	}
	if text[0] == '-' {
		whole = -whole
	}
	return whole, true
}
