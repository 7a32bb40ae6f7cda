package usage

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ReadBill reads a bill: CSV in UTF-8, with commas or semicolons, the names of the columns in the
// first line. The error is a *BillFaults with the lines that are wrong.
func ReadBill(text []byte, o BillOptions) (*Bill, error) {
	faults := &BillFaults{}
	lines := csv.NewReader(bytes.NewReader(text))
	lines.ReuseRecord = true
	lines.LazyQuotes = false
	lines.TrimLeadingSpace = true
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if !bytes.ContainsRune(first, ',') && bytes.ContainsRune(first, ';') {
		lines.Comma = ';'
	}
	names, err := lines.Read()
	if err != nil || !utf8.Valid(text) {
		faults.add(1, "it is no CSV file in UTF-8 whose first line names its columns")
		return nil, faults
	}
	names = slices.Clone(names)
	at, ignored := layout(names, &o, faults)
	if len(faults.List) > 0 {
		return nil, faults
	}
	b := &Bill{Ignored: ignored, rows: make(map[Key]*billed)}
	for _, c := range known() {
		if _, ok := at[c]; ok || c == ColumnProvider && o.Provider != "" {
			b.Has = append(b.Has, c)
		}
	}
	for len(faults.List) < maxBillFaults {
		fields, err := lines.Read()
		var wrong *csv.ParseError
		if errors.As(err, &wrong) {
			faults.add(wrong.Line, "%v", wrong.Err)
			if !errors.Is(err, csv.ErrFieldCount) {
				return nil, faults // what follows is not told apart
			}
			continue
		}
		if err != nil {
			break // the end: the text is in memory, and cannot fail otherwise
		}
		line, _ := lines.FieldPos(0)
		if b.Lines++; b.Lines > MaxBillLines {
			faults.add(line, "there are more than %d lines: reconcile a shorter time", MaxBillLines)
			break
		}
		b.line(line, fields, at, &o, faults)
	}
	if b.Lines == 0 && len(faults.List) == 0 {
		faults.add(2, "there are no lines below the names of the columns")
	}
	if len(faults.List) > 0 {
		return nil, faults
	}
	return b, nil
}

// line takes one line.
func (b *Bill) line(line int, fields []string, at map[string]int, o *BillOptions, faults *BillFaults) {
	cell := func(column string) string {
		i, ok := at[column]
		if !ok {
			return ""
		}
		return strings.TrimSpace(fields[i])
	}
	for i, f := range fields {
		if len(f) > maxBillCell && slices.Contains(indexes(at), i) {
			faults.add(line, "field %d has more than %d bytes", i+1, maxBillCell)
			return
		}
	}
	day, ok := dayOf(cell(ColumnDate))
	if !ok {
		faults.add(line, "%q is not a date such as 2026-11-22", short(cell(ColumnDate)))
		return
	}
	k := Key{
		Day: day, Provider: cell(ColumnProvider), Model: renamed(cell(ColumnModel), o.Models),
		Group: renamed(cell(ColumnGroup), o.Groups), Agent: renamed(cell(ColumnAgent), o.Agents),
	}
	if o.Provider != "" {
		k.Provider = o.Provider
	}
	var adds billed
	for i, m := range Measures {
		text := cell(m)
		if text == "" {
			continue
		}
		var v int64
		if m == "cost_usd" {
			v, ok = nanoOf(text)
			adds.nano = v
		} else {
			if ok = wholeNumber.MatchString(text); ok {
				v = digits(text)
			}
			adds.measures[i] = v
		}
		if !ok {
			faults.add(line, "%s is %q: it must be a number such as %s", m, short(text), map[bool]string{true: "0.0125, in US dollars", false: "1250"}[m == "cost_usd"])
			return
		}
	}
	if b.From == "" || day < b.From {
		b.From = day
	}
	b.To = max(b.To, day)
	if err := b.add(k, &adds); err != nil {
		faults.add(line, "%v", err)
	}
}

// add adds up what is of the same key.
func (b *Bill) add(k Key, adds *billed) error {
	r := b.rows[k]
	if r == nil {
		r = new(billed)
		b.rows[k] = r
	}
	for i := range r.measures {
		r.measures[i] += adds.measures[i]
		if r.measures[i] > Most {
			return fmt.Errorf("its %s add up to more than %d", Measures[i], Most)
		}
	}
	if r.nano += adds.nano; r.nano > Most*100 || r.nano < -Most*100 {
		return errors.New("its costs add up to more than 100,000,000 US dollars")
	}
	return nil
}

func indexes(at map[string]int) (all []int) {
	for _, i := range at { // order does not matter
		all = append(all, i)
	}
	return all
}

func renamed(name string, names map[string]string) string {
	if to, ok := names[name]; ok {
		return to
	}
	return name
}

// digits is a whole number that was found to be one.
func digits(text string) (v int64) {
	for _, c := range []byte(text) {
		if c == '.' {
			break
		}
		v = 10*v + int64(c-'0')
	}
	return v
}
