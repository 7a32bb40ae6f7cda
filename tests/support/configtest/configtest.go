// Package configtest holds readers of configuration files to golden files and editors' schemas.
package configtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
)

// Files gives the files of a folder by name, without ".yaml".
func Files(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(folder + "/*.yaml")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%s holds %d files (%v), want at least 30", folder, len(paths), err)
	}
	files := make(map[string][]byte, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".yaml")] = data
	}
	return files
}

// Faults holds what parse says of each file of a folder to the .faults file beside it; those with a name that begins
// with "valid-" give none.
func Faults(t *testing.T, update bool, folder string, parse func(data []byte, name string) error) {
	t.Helper()
	for name, data := range Files(t, folder) {
		t.Run(name, func(t *testing.T) {
			err := parse(data, name+".yaml")
			if strings.HasPrefix(name, "valid-") {
				if err != nil {
					t.Fatalf("a valid file is refused:\n%v", err)
				}
				return
			}
			var faults *yamlconf.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("want *Faults, got %v", err)
			}
			Golden(t, update, filepath.Join(folder, name+".faults"), err.Error()+"\n")
		})
	}
}

// Golden compares with a file, or writes it with update.
func Golden(t *testing.T, update bool, golden, got string) {
	t.Helper()
	if update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Agrees sees that a schema and the loader agree on files, except on those which say in their first line that a schema
// cannot see what is wrong; these it must indeed accept.
func Agrees(t *testing.T, schema *jsonschema.Schema, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			doc, err := EditorSees(data)
			if err == nil {
				err = schema.Validate(doc)
			}
			accepts := strings.HasPrefix(name, "valid-") || bytes.HasPrefix(data, []byte("# A schema cannot see this"))
			if accepts != (err == nil) {
				t.Errorf("the schema must accept it: %v; it says %v", accepts, err)
			}
		})
	}
}

// Compile makes an editors' schema ready to validate.
func Compile(t testing.TB, name string, schema []byte) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft7
	if err := compiler.AddResource(name, bytes.NewReader(schema)); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile(name)
}

// EditorSees makes JSON of a file, which is what a schema is about. An error
// means that it is no YAML, or holds what JSON has no word for.
func EditorSees(data []byte) (any, error) {
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	text, err := json.Marshal(withTextKeys(doc))
	if err != nil {
		return nil, err
	}
	var seen any
	err = json.Unmarshal(text, &seen)
	return seen, err
}

// CheckFaults sees that a file is refused with faults, each of one line that says where in the file it is.
func CheckFaults(t *testing.T, err error, data []byte) {
	t.Helper()
	var faults *yamlconf.Faults
	if !errors.As(err, &faults) || len(faults.List) == 0 {
		t.Fatalf("not *yamlconf.Faults: %v", err)
	}
	lines := 2
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		lines += strings.Count(string(data), end)
	}
	for _, fault := range faults.List {
		if fault.Line < 1 || fault.Line > lines || fault.Text == "" {
			t.Errorf("a file of %d lines gives the fault %+v", lines, fault)
		}
		if strings.ContainsAny(fault.String(), "\n\r\x00") {
			t.Errorf("the fault is not one clean line: %q", fault.String())
		}
	}
}

// withTextKeys makes every key a string, as in JSON: `1:` becomes "1".
func withTextKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = withTextKeys(value)
		}
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[fmt.Sprint(key)] = withTextKeys(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = withTextKeys(v[i])
		}
	}
	return v
}
