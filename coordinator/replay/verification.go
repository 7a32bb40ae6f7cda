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
	Identical bool      `json:"identical"`
	Decisions int       `json:"decisions"`
	Records   int       `json:"records"`
	Inputs    int       `json:"inputs"`
	// NotRecorded are records of the journal after the recording's end, NotJournalled
	// those of the replay after the journal's.
	NotRecorded   int         `json:"records_not_recorded"`
	NotJournalled int         `json:"records_not_journalled"`
	Difference    *Difference `json:"difference,omitempty"`
	Notes         []string    `json:"notes,omitempty"`
}

// Report tells what came of a verification of the recording.
func (r *Recording) Report(v *Verification) Report {
	from, until := r.Span()
	return Report{
		Recording: r.Name, Epoch: r.Epoch, From: from.UTC(), Until: until.UTC(), Identical: v.Difference == nil,
		Decisions: v.Decisions, Records: v.Records, Inputs: v.Inputs,
		NotRecorded: v.Unrecorded, NotJournalled: v.Unjournalled, Difference: v.Difference, Notes: r.Notes(),
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "recording %s of epoch %d: %s\n", clean(r.Recording), r.Epoch, spanText(r.From, r.Until))
	if r.Identical {
		fmt.Fprintf(&b, "identical: %d decisions (%d records of %d inputs)\n", r.Decisions, r.Records, r.Inputs)
	} else {
		fmt.Fprintf(&b, "different after %d decisions (%d records of %d inputs)\n%s\n",
			r.Decisions, r.Records, r.Inputs, clean(r.Difference.String()))
	}
	if r.NotRecorded > 0 {
		fmt.Fprintf(&b, "note: %d records of the journal came after the end of the recording, and are not compared\n", r.NotRecorded)
	}
	if r.NotJournalled > 0 {
		fmt.Fprintf(&b, "note: the export ends before %d records that the inputs lead to; they are not compared\n", r.NotJournalled)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", clean(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
