package replay

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is a verification in the form in which it is printed.
type Report struct {
	Recording string    `json:"recording"`
	Epoch     uint64    `json:"epoch"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	// Identical is false where nothing was compared.
	Identical bool `json:"identical"`
	Decisions int  `json:"decisions"`
	Records   int  `json:"records"`
	Inputs    int  `json:"inputs"`
	// NotRecorded are records of the journal after the recording's end, NotJournalled
	// those of the replay after the journal's.
	NotRecorded   int         `json:"records_not_recorded"`
	NotJournalled int         `json:"records_not_journalled"`
	Difference    *Difference `json:"difference,omitempty"`
	Notes         []string    `json:"notes,omitempty"`
}

// Report says what came of a verification of the recording.
func (r *Recording) Report(v *Verification) Report {
	from, until := r.Span()
	return Report{
		Recording: r.Name, Epoch: r.Epoch, From: from.UTC(), Until: until.UTC(), Identical: v.Difference == nil &&
			v.Records > 0,
		Decisions: v.Decisions, Records: v.Records, Inputs: v.Inputs,
		NotRecorded: v.Unrecorded, NotJournalled: v.Unjournalled, Difference: v.Difference, Notes: r.Notes(),
	}
}

// NotCompared is how many records only the journal or only the replay has, at its end.
func (r *Report) NotCompared() int { return r.NotRecorded + r.NotJournalled }

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "recording %s of epoch %d: %s\n", clean(r.Recording), r.Epoch, spanText(r.From, r.Until))
	compared := fmt.Sprintf("%d decisions (%d records of %d inputs)", r.Decisions, r.Records, r.Inputs)
	if n := r.NotCompared(); n > 0 {
		compared += fmt.Sprintf("; %d records not compared", n)
	}
	switch {
	case r.Difference != nil:
		fmt.Fprintf(&b, "different after %s\n%s\n", compared, clean(r.Difference.String()))
	case r.Identical:
		fmt.Fprintf(&b, "identical: %s\n", compared)
	default:
		fmt.Fprintf(&b, "nothing compared: %s\n", compared)
	}
	if r.NotRecorded > 0 {
		fmt.Fprintf(&b, "note: %d records of the journal came after the end of the recording, and are not compared\n",
			r.NotRecorded)
	}
	if r.NotJournalled > 0 {
		fmt.Fprintf(&b, "note: the export ends before %d records that the inputs lead to; they are not compared\n",
			r.NotJournalled)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", clean(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
