package messages

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"taskbus/schemas"
)

var update = flag.Bool("update", false, "write what a task carries into the schemas of its dispatch and ends")

// likeText is a property of task.assign that is what a word of the tag `text` says.
var likeText = map[string]string{"printable": "correlation_id", "name": "group"}

// keysOfCarried are the keys of what is carried, by the names of the fields.
func keysOfCarried() map[string]string {
	keys := make(map[string]string)
	for i, t := 0, reflect.TypeFor[Carried](); i < t.NumField(); i++ {
		keys[t.Field(i).Name], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return keys
}

// schemaFile is the text of a schema, which is changed in place.
type schemaFile struct{ name, text string }

func readSchema(t *testing.T, name string) *schemaFile {
	t.Helper()
	text, err := os.ReadFile("../schemas/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return &schemaFile{name, string(text)}
}

// property is where a property of the message stands, without a comma behind it.
func (f *schemaFile) property(key string) (from, to int, has bool) {
	from = strings.Index(f.text, "\n    \""+key+"\": {\n")
	if from < 0 {
		return 0, 0, false
	}
	const end = "\n    }"
	from++
	return from, from + strings.Index(f.text[from:], end) + len(end), true
}

// says is what a property says beside its meaning: its text, and decoded.
func (f *schemaFile) says(t *testing.T, key string) (text string, value map[string]any) {
	t.Helper()
	from, to, has := f.property(key)
	if !has {
		return "", nil
	}
	lines := slices.DeleteFunc(strings.Split(f.text[from:to], "\n"), func(line string) bool {
		return strings.HasPrefix(line, `      "x-meaning":`)
	})
	last := len(lines) - 2
	lines[last] = strings.TrimSuffix(lines[last], ",")
	text = strings.Join(lines, "\n")
	var property map[string]map[string]any
	if err := json.Unmarshal([]byte("{"+text+"}"), &property); err != nil {
		t.Fatalf("schemas/%s.json, %s: %v", f.name, key, err)
	}
	return text, property[key]
}

// put writes a property, or in place of what there is, else behind another one.
func (f *schemaFile) put(key, text, behind string) {
	from, to, has := f.property(key)
	if !has {
		_, to, _ = f.property(behind)
		from, text = to, ",\n"+text
	}
	f.text = f.text[:from] + text + f.text[to:]
}

// What is carried is what its tags say in each schema; the first has it by hand, and -update writes the others.
func TestCarriedIsInTheSchemas(t *testing.T) {
	first := readSchema(t, schemas.TaskAssign)
	for _, name := range []string{schemas.TaskDispatch, schemas.TaskCompleted, schemas.AssignmentFailed} {
		file := readSchema(t, name)
		behind := ""
		for _, field := range carriedFields {
			want, is := first.says(t, field.key)
			of := reflect.TypeFor[Carried]().Field(field.index)
			tag := of.Tag.Get("text")
			_, like := first.says(t, likeText[tag])
			if like == nil || field.read == nil {
				t.Fatalf("Carried.%s: the tag text:%q is none of %v", of.Name, tag, slices.Sorted(maps.Keys(texts)))
			}
			if !reflect.DeepEqual(is, like) {
				t.Fatalf("Carried.%s: in schemas/%s.json %q is not what text:%q says, and %s has", of.Name, first.name, field.key,
					tag, likeText[tag])
			}
			switch got, _ := file.says(t, field.key); {
			case got == want:
			case *update:
				file.put(field.key, want, behind)
			default:
				t.Errorf("Carried.%s: in schemas/%s.json %q is not that of %s; write it with: "+
					"go test ./messages -run TestCarriedIsInTheSchemas -update", of.Name, name, field.key,
					first.name)
			}
			behind = field.key
			var schema struct{ Required []string }
			if err := json.Unmarshal([]byte(file.text), &schema); err != nil {
				t.Fatalf("schemas/%s.json: %v", name, err)
			}
			if slices.Contains(schema.Required, field.key) != field.required {
				t.Errorf("Carried.%s: required of schemas/%s.json has it: %t, its tag says %t", of.Name, name, !field.required,
					field.required)
			}
		}
		if *update {
			if err := os.WriteFile("../schemas/"+name+".json", []byte(file.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
