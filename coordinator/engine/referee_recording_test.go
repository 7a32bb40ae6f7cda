package engine_test

import (
	"compress/gzip"
	"os"
	"testing"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// recordingFile is the export of a journal that `taskbus demo` has left with journal.record_inputs: 90 tasks
// of examples/tasks.jsonl, with the agents of config/agents.yaml and two groups in quotas.yaml. It is part of
// what the referee holds; it is made anew only when this version of Taskbus no longer reads it.
const recordingFile = "testdata/demo.tbj.gz"

// playRecording gives an engine the state and the inputs of a recording.
func playRecording(t *testing.T, p *protocol) {
	e, n := engine.New(), 0
	snapshot, inputs := readRecording(t)
	e.Follow()
	for _, in := range inputs {
		if changed, ok := in.Event.(coordinator.PolicyChanged); ok {
			c, err := config.ParseSource(changed.Policy.Source, "the recorded policy")
			if err != nil {
				t.Fatal(err)
			}
			in.Event = coordinator.PolicyChanged{Policy: c.Policy()}
		}
		effects := e.Apply(in.At, in.Event, nil)
		if n == 0 { // the policy, under which the state is taken over
			for _, r := range snapshot {
				e.Fold(r.at, r.record)
			}
			e.Lead(in.At)
			e.Record(true)
		}
		records := e.Records(nil)
		n++
		p.event(n, in.At, in.Event, func(out *encoder) { out.followed(effects, records) })
	}
}

// readRecording reads the snapshot and the inputs of the only recording in the file.
func readRecording(t *testing.T) (snapshot []noted, inputs []journal.Input) {
	t.Helper()
	f, err := os.Open(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for exported, err := range journal.ReadExport(unpacked) {
		if err != nil {
			t.Fatal(err)
		}
		m, err := journal.Decode(exported.Body)
		if err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case journal.KindSnapshot:
			for _, r := range m.Records {
				snapshot = append(snapshot, noted{m.At, r})
			}
		case journal.KindInputs:
			_, recorded, err := journal.DecodeInputs(exported.Body)
			if err != nil {
				t.Fatal(err)
			}
			inputs = append(inputs, recorded.Inputs...)
		}
	}
	return snapshot, inputs
}
