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

// ReadBill reads a bill: CSV in UTF-8, with commas, semicolons or tabs, the names of the columns in the
// first line. The error is a *BillFaults with the lines that are wrong.
func ReadBill(text []byte, o BillOptions) (*Bill, error) {
	faults := &BillFaults{}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // spreadsheets write it, also in front of a quote
	lines := csv.NewReader(bytes.NewReader(text))
	lines.ReuseRecord = true
	lines.LazyQuotes = false
	lines.Comma = separator(text)
	lines.TrimLeadingSpace = lines.Comma != '\t' // it would take an empty field for a space
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
				return nil, faults // what follows is not distinguished
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
	b.dropEmpty(names, at)
	return b, nil
}

// separator is what divides the names of the columns: of those that may, the one that is there most
// often, and not within quotes.
func separator(text []byte) rune {
	var found [256]int
	quoted := false
	for _, c := range bytes.TrimLeft(text, "\r\n") {
		if c == '"' {
			quoted = !quoted
		}
		if c == '\n' && !quoted {
			break
		}
		if !quoted {
			found[c]++
		}
	}
	most := ','
	for _, c := range []rune{';', '\t'} {
		if found[c] > found[most] {
			most = c
		}
	}
	return most
}

// dropEmpty forgets the columns in which no line says whose it is: exports have them also where
// nothing was to be distinguished.
func (b *Bill) dropEmpty(names []string, at map[string][]int) {
	said := make(map[string]bool)
	for k := range b.rows { // order does not matter
		said[ColumnProvider] = said[ColumnProvider] || k.Provider != ""
		said[ColumnModel] = said[ColumnModel] || k.Model != ""
		said[ColumnGroup] = said[ColumnGroup] || k.Group != ""
		said[ColumnAgent] = said[ColumnAgent] || k.Agent != ""
	}
	for _, c := range []string{ColumnProvider, ColumnModel, ColumnGroup, ColumnAgent} {
		if fields, ok := at[c]; ok && !said[c] {
			b.Has = slices.DeleteFunc(b.Has, func(has string) bool { return has == c })
			b.Ignored = append(b.Ignored, short(names[fields[0]]))
		}
	}
}

// line takes one line.
func (b *Bill) line(line int, fields []string, at map[string][]int, o *BillOptions, faults *BillFaults) {
	cell := func(column string) string {
		if len(at[column]) == 0 {
			return ""
		}
		return strings.TrimSpace(fields[at[column][0]])
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
	if c := cell(columnCurrency); c != "" && !strings.EqualFold(c, "usd") && cell("cost_usd") != "" {
		faults.add(line, "the cost is in %s: it must be in US dollars; convert it, and leave the currency out", short(c))
		return
	}
	var adds billed
	for i, m := range Measures {
		for _, field := range at[m] {
			text := strings.TrimSpace(fields[field])
			if text == "" {
				continue
			}
			if m == "cost_usd" {
				adds.nano, ok = nanoOf(text)
			} else if ok = wholeNumber.MatchString(text); ok {
				adds.measures[i] += digits(text)
			}
			if !ok {
				faults.add(line, "%s is %q: it must be a number such as %s", m, short(text),
					map[bool]string{true: "0.0125, in US dollars", false: "1250"}[m == "cost_usd"])
				return
			}
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

func indexes(at map[string][]int) (all []int) {
	for _, fields := range at { // order does not matter
		all = append(all, fields...)
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
