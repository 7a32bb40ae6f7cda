package messages

import (
	"encoding/json"
	"strings"
	"testing"
)

// An estimate that gives both tokens as 0 says that there are none; else what is 0 is not known. It is
// the same however the message is read, where it is sent on, and when its dispatch comes back.
func TestEstimateOfNoTokens(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct {
		estimate string
		want     bool
	}{
		{`{"input_tokens":0,"output_tokens":0}`, true},
		{`{"requests":1,"input_tokens":0,"output_tokens":0.0,"provider":"p","model":"m"}`, true},
		{`{"input_tokens":0,"output_tokens":0,"alternatives":[{"provider":"p"}]}`, true},
		{`{"input_tokens":0,"output_tokens":5}`, false},
		{`{"output_tokens":0}`, false},
		{`{"requests":1}`, false},
		{`{}`, false},
	} {
		body := assign(`"estimated_usage":` + c.estimate)
		for name, text := range map[string]string{
			"fast": body,
			"slow": strings.Replace(body, `"estimated_usage"`, `"estimated\u005fusage"`, 1), // an escape in a key
		} {
			m, refusal := d.DecodeTaskAssign([]byte(text))
			if refusal != nil {
				t.Fatalf("%s: %s", text, refusal.Text)
			}
			again, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			sentOn, refusal := d.DecodeTaskAssign(again)
			if refusal != nil {
				t.Fatalf("%s: %s", again, refusal.Text)
			}
			task := m.Task(Arrival{Now: at})
			dispatch := sampleDispatch()
			dispatch.Task = task
			back, refusal := send(dispatch, "{}").decode(d)
			if refusal != nil {
				t.Fatalf("%s: %s", EncodeTaskHeader(task), refusal.Text)
			}
			if task.NoTokens != c.want || sentOn.EstimatedUsage.NoTokens != c.want || back.Task.NoTokens != c.want {
				t.Errorf("%s, read the %s way: %t, sent on %t, come back %t, want %t", c.estimate, name, task.NoTokens,
					sentOn.EstimatedUsage.NoTokens, back.Task.NoTokens, c.want)
			}
		}
	}
}
