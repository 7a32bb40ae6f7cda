package yamlconf

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// mode is an enumeration, as packages have them.
type mode uint8

// settings has a destination of every kind.
type settings struct {
	count   uint64
	wait    time.Duration
	load    float64
	on      bool
	mode    mode
	strict  bool
	word    string
	name    string
	tags    []string
	noted   Place
	ignored []string
}

func (s *settings) read(d *Decoder, p Place) {
	d.Object(p, Keys{
		"count": d.Whole(&s.count, 1, 5), "wait_seconds": d.Seconds(&s.wait, 1, 60), "load": d.Above(&s.load, 0, 1),
		"on": d.Bool(&s.on), "mode": d.OneOf(&s.mode, "push", "pull"), "order": d.OneOf(&s.strict, "weighted", "strict"),
		"word": d.OneOf(&s.word, "all", "none"), "name": d.Text(&s.name, ID), "tags": d.Words(&s.tags, "tags", ID),
		"later": d.Noted(&s.noted, d.Whole(new(int), 0, 9)), "old": d.Ignored(&s.ignored, "it is over"),
		"each": func(p Place) { d.Entries(p, "a mapping", func(_, value Place) { d.Bool(new(bool))(value) }) },
	})
	d.Need(p, "name", "; write one")
}

func parse(t *testing.T, text string) (settings, string) {
	t.Helper()
	d := &Decoder{Source: "f.yaml", File: File{MaxBytes: 1000}}
	var s settings
	if root := d.Parse([]byte(text)); root != nil {
		s.read(d, Place{Node: root})
	}
	if err := ErrorOf(d.Faults); err != nil {
		return s, err.Error()
	}
	return s, ""
}

func TestEveryKindOfValue(t *testing.T) {
	s, faults := parse(t, "{count: 3, wait_seconds: 7, load: 0.5, on: true, mode: pull, order: strict, word: none, "+
		"name: 1, "+
		"tags: [b, a, b], later: 8, old: x}")
	later := s.noted.Node.Value
	s.noted = Place{}
	want := settings{count: 3, wait: 7 * time.Second, load: 0.5, on: true, mode: 1, strict: true, word: "none", name: "1",
		tags: []string{"a", "b"}, ignored: []string{"old is ignored: it is over"}}
	if faults != "" || later != "8" || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v %q, want %+v; %s", s, later, want, faults)
	}
}

// All faults come together, each with its line, column and path, and leave the destination as it was.
func TestEveryFault(t *testing.T) {
	s, faults := parse(t, "count: 05\nwait_seconds: \"7\"\nload: 0\non: yes\nmode: pul\nword: [all]\ntags: a\nnam: "+
		"x\non: true\n")
	want := []string{
		"f.yaml:1:1: name: is missing; write one",
		"f.yaml:1:8: count: must be a whole number from 1 to 5, not 05; write it without the leading zero: 5",
		"f.yaml:2:15: wait_seconds: must be a whole number from 1 to 60, not text; write it without quotes: 7",
		"f.yaml:3:7: load: must be a number above 0 and up to 1, not 0",
		`f.yaml:4:5: on: must be true or false, not "yes"`,
		`f.yaml:5:7: mode: must be one of push, pull, not "pul"`,
		"f.yaml:6:7: word: must be one of all, none, not a list",
		`f.yaml:7:7: tags: must be a list of tags, e.g. [a, b], not "a"`,
		"f.yaml:8:1: nam: unknown key; did you mean name?",
		"f.yaml:9:1: on: is already given in line 4; remove one of the two",
	}
	if got := strings.Split(faults, "\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", faults, strings.Join(want, "\n"))
	}
	if !reflect.DeepEqual(s, settings{}) {
		t.Errorf("what is faulty was taken: %+v", s)
	}
}

// TestDescribe: what readers accept is found without a file, and the default is what the destination has.
func TestDescribe(t *testing.T) {
	s := settings{count: 2, wait: 5 * time.Second, mode: 1}
	got := Describe(s.read)
	for path, want := range map[string]Facts{
		"":             {"type": "object"},
		"count":        {"type": "integer", "minimum": int64(1), "maximum": int64(5), "default": uint64(2)},
		"wait_seconds": {"type": "integer", "minimum": int64(1), "maximum": int64(60), "default": int64(5)},
		"load":         {"type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0, "default": 0.0},
		"mode":         {"enum": []string{"push", "pull"}, "default": "pull"},
		"name":         {"type": "string", "pattern": ID.Pattern.String(), "required": true},
		"tags":         {"type": "array"},
		"tags[]":       {"type": "string", "pattern": ID.Pattern.String()},
		"later":        {"type": "integer", "minimum": int64(0), "maximum": int64(9), "default": 0},
		"old":          {"deprecated": true},
		"each.*":       {"type": "boolean", "default": false},
	} {
		if !reflect.DeepEqual(got[path], want) {
			t.Errorf("%q: %v, want %v", path, got[path], want)
		}
	}
}
