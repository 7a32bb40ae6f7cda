// Package openapi holds answers to schemas/openapi.yaml, for the tests of what is answered.
//
// It answers "is this what the document says?" of one answer. It is stricter than the document: an
// object may have no member that the document does not name, so that nothing is forgotten there.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"gopkg.in/yaml.v3"

	"taskbus/schemas"
)

// Document is schemas/openapi.yaml. It is not for more than one goroutine.
type Document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
}

const address = "taskbus:///openapi.json"

// Read reads the document, and follows every reference in it.
func Read() (*Document, error) {
	text, err := schemas.File("openapi.yaml")
	if err != nil {
		return nil, err
	}
	d := &Document{compiler: jsonschema.NewCompiler()}
	if err := yaml.Unmarshal(text, &d.root); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if err := d.resolve(d.root, "#"); err != nil {
		return nil, err
	}
	components, _ := d.at("#/components/schemas")
	closeObjects(components)
	asJSON, err := json.Marshal(d.root)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml as JSON: %w", err)
	}
	d.compiler.Draft = jsonschema.Draft2020
	d.compiler.AssertFormat = true
	return d, d.compiler.AddResource(address, bytes.NewReader(asJSON))
}

// resolve sees that every reference leads somewhere.
func (d *Document) resolve(node any, where string) error {
	switch n := node.(type) {
	case map[string]any:
		if ref, ok := n["$ref"].(string); ok {
			if _, found := d.at(ref); !found {
				return fmt.Errorf("%s: %s leads nowhere", where, ref)
			}
		}
		for key, child := range n {
			if child == nil {
				return fmt.Errorf("%s: %q has no value; is it a part of a text with a comma that is not quoted?", where, key)
			}
			if err := d.resolve(child, where+"/"+escape(key)); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range n {
			if err := d.resolve(child, where+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeObjects forbids members that are not named.
func closeObjects(node any) {
	n, ok := node.(map[string]any)
	if !ok {
		return
	}
	_, named := n["properties"].(map[string]any)
	if _, said := n["additionalProperties"]; named && !said && n["type"] == "object" {
		n["additionalProperties"] = false
	}
	for _, child := range n {
		closeObjects(child)
	}
}

// at is what a reference leads to.
func (d *Document) at(ref string) (any, bool) {
	var node any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := node.(map[string]any)
		if !ok {
			return nil, false
		}
		if node, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]; !ok {
			return nil, false
		}
	}
	return node, true
}

func escape(part string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(part) }

// methods are the members of a path that are operations.
var methods = []string{"get", "put", "post", "delete"}

// Operations lists what the document describes, as "GET /path", sorted.
func (d *Document) Operations() []string {
	var all []string
	paths, _ := d.root["paths"].(map[string]any)
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		for name := range operations {
			if slices.Contains(methods, name) {
				all = append(all, strings.ToUpper(name)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Check holds one answer to the document: path is as in the document, with {id}.
func (d *Document) Check(method, path string, status int, contentType string, body []byte) error {
	where := "#/paths/" + escape(path) + "/" + strings.ToLower(method) + "/responses/"
	at := where + strconv.Itoa(status)
	response, ok := d.at(at)
	if !ok {
		at = where + "default"
		if response, ok = d.at(at); !ok {
			return fmt.Errorf("%s %s: the document knows no answer %d", method, path, status)
		}
	}
	if ref, ok := response.(map[string]any)["$ref"].(string); ok {
		at = ref
		response, _ = d.at(ref) // it was resolved
	}
	content, _ := response.(map[string]any)["content"].(map[string]any)
	if len(content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%s %s: %d has a body, and none in the document", method, path, status)
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("%s %s: %d has the content type %q: %w", method, path, status, contentType, err)
	}
	if _, ok := content[kind]; !ok {
		return fmt.Errorf("%s %s: %d has the content type %s, which the document does not name", method, path, status, kind)
	}
	if !strings.Contains(kind, "json") {
		return nil
	}
	schema, err := d.compiler.Compile(address + at + "/content/" + escape(kind) + "/schema")
	if err != nil {
		return fmt.Errorf("%s %s: the schema of %d: %w", method, path, status, err)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("%s %s: %d is no JSON: %w", method, path, status, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%s %s: %d is not what the document says: %#v\n%s", method, path, status, err, body)
	}
	return nil
}
