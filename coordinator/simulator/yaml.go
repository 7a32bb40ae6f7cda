package simulator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Fault is one thing that is wrong with a scenario file.
type Fault struct {
	Source string
	// Line counts from 1.
	Line int
	// Path leads to the setting, e.g. "fleet[0].slots"; empty for the whole file.
	Path string
	// Text says what is wrong and what to do.
	Text string
}

// String renders "mine.yaml:12: fleet[0].slots: text".
func (f Fault) String() string {
	path := f.Path
	if path != "" {
		path += ": "
	}
	return fmt.Sprintf("%s:%d: %s%s", f.Source, f.Line, path, f.Text)
}

// Faults is the error of Read: all that is wrong, in the order of the file. List
// is never empty.
type Faults struct{ List []Fault }

// Error gives one line for each fault.
func (e *Faults) Error() string {
	lines := make([]string, len(e.List))
	for i, f := range e.List {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// reader walks the YAML tree and collects faults.
type reader struct {
	source string
	faults []Fault
}

// spot is a node of the file and the path that leads to it.
type spot struct {
	node *yaml.Node
	path string
}

// fields says what may stand in a mapping: how the value of each key is read.
type fields map[string]func(spot)

const maxFaults = 50

// parse gives the root of the only document of the file; nil comes with a fault.
func (r *reader) parse(data []byte) *yaml.Node {
	fault := func(line int, format string, args ...any) *yaml.Node {
		r.faults = append(r.faults, Fault{Source: r.source, Line: line, Text: fmt.Sprintf(format, args...)})
		return nil
	}
	if len(data) > MaxFileBytes {
		return fault(1, "the file is larger than %d bytes; a scenario describes a fleet, it holds no data", MaxFileBytes)
	}
	if line, text := illegible(data); text != "" {
		return fault(line, "%s", text)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return fault(1, "the file is empty; describe at least fleet, workloads and strategies")
	} else if err != nil {
		line, text := yamlError(err)
		return fault(line, "cannot be read: %s; look at the indentation, brackets and quotes of what begins here", text)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return fault(max(1, second.Line), "a second document begins; remove the `---` and what follows it")
	}
	if n := alias(&doc); n != nil {
		return fault(n.Line, "aliases and merge keys are not allowed; write the values out")
	}
	return doc.Content[0]
}

// yamlError takes the line out of the parser's message; 1 when it gives none.
func yamlError(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	digits, rest, found := strings.Cut(strings.TrimPrefix(text, "line "), ": ")
	if line, err := strconv.Atoi(digits); err == nil && found {
		return line, rest
	}
	return 1, text
}

// alias finds the first alias in the tree: with them a small file may mean a huge
// one.
func alias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Tag == "!!merge" {
		return n
	}
	for _, c := range n.Content {
		if found := alias(c); found != nil {
			return found
		}
	}
	return nil
}

func (r *reader) fault(p spot, format string, args ...any) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{r.source, p.node.Line, p.path, fmt.Sprintf(format, args...)})
	}
}

// found describes what stands at a place, for the end of "must be …, not …".
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	}
	return quoted(n.Value)
}

// quoted repeats the beginning of what stands in a file.
func quoted(s string) string {
	const most = 40
	text := []rune(s)
	if len(text) > most {
		text = append(text[:most:most], '…')
	}
	return strconv.Quote(string(text))
}

// object hands the value of every key to its reader, and says which keys that must
// be given are not.
func (r *reader) object(p spot, known fields, required ...string) {
	seen := make(map[string]bool)
	r.entries(p, func(key string, k, value spot) {
		seen[key] = true
		read, ok := known[key]
		if !ok {
			r.fault(k, "unknown key%s", DidYouMean(key, slices.Sorted(maps.Keys(known))))
			return
		}
		read(value)
	})
	for _, key := range required {
		if p.node.Kind == yaml.MappingNode && !seen[key] {
			r.fault(spot{p.node, join(p.path, key)}, "is missing")
		}
	}
}

// entries calls each for every key of a mapping, in the order of the file.
func (r *reader) entries(p spot, each func(key string, k, value spot)) {
	if p.node.Kind != yaml.MappingNode {
		r.fault(p, "must be a mapping, not %s", found(p.node))
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		n := p.node.Content[i]
		if strings.ContainsFunc(n.Value, unseen) {
			r.fault(spot{n, p.path}, "the key %s holds a control character; remove it", found(n))
			continue
		}
		k := spot{n, join(p.path, n.Value)}
		if line := lines[n.Value]; line > 0 {
			r.fault(k, "is already given in line %d; remove one of the two", line)
			continue
		}
		lines[n.Value] = n.Line
		each(n.Value, k, spot{p.node.Content[i+1], k.path})
	}
}

// list calls each for every item.
func (r *reader) list(p spot, each func(item spot)) {
	if p.node.Kind != yaml.SequenceNode {
		r.fault(p, "must be a list, not %s", found(p.node))
		return
	}
	for i, item := range p.node.Content {
		each(spot{item, fmt.Sprintf("%s[%d]", p.path, i)})
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
