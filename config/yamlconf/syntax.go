package yamlconf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"taskbus/coordinator/pattern"
)

// maxDepth of nesting is far above any real file, far below what would cost stack.
const maxDepth = 32

// File is what a file is.
type File struct {
	// Name is for what is said when it cannot be read at all.
	Name     string
	MaxBytes int
	// Holds says what the file is for, Begin what it must have at least.
	Holds, Begin string
	// NoEmpty: a section with nothing under it is a fault; else it counts as absent.
	NoEmpty bool
	// Elsewhere says of an unknown key of a mapping with those keys where it belongs instead; nil: nothing.
	Elsewhere func(key string, known Keys) string
}

// Parse turns the file's bytes into its root node and refuses whatever could
// mean something else than it seems to. A nil node comes with at least one fault.
func (d *Decoder) Parse(data []byte) *yaml.Node {
	if len(data) > d.File.MaxBytes {
		d.faultAt(1, 1, "", "the file is larger than %d bytes; %s", d.File.MaxBytes, d.File.Holds)
		return nil
	}
	if !d.plainText(data) {
		return nil
	}
	doc, err := decodeDocument(data)
	if errors.Is(err, io.EOF) {
		d.faultAt(1, 1, "", "the file is empty; %s", d.File.Begin)
		return nil
	}
	if err != nil {
		line, text := splitYAMLError(err)
		if at, column := indentingTab(data, line); yamlTabError.MatchString(text) && at > 0 {
			d.faultAt(at, column, "", "cannot be read: tabs cannot indent YAML; use spaces")
			return nil
		}
		d.faultAt(line, 0, "", "cannot be read: %s", text)
		return nil
	}
	root := doc.Content[0]
	if !d.plainTree(root, 1) {
		return nil
	}
	return root
}

// plainText reports whether the bytes are UTF-8 without control characters. The
// parser would refuse them too, but without saying where.
func (d *Decoder) plainText(data []byte) bool {
	line, column := 1, 1
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			d.faultAt(line, column, "", "not UTF-8 text; save the file as UTF-8")
			return false
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r' || r == 0x7f:
			d.faultAt(line, column, "", "holds the control character %U; remove it", r)
			return false
		}
		column++
	}
	return true
}

// decodeDocument parses exactly one document. A panic of the parser becomes an
// error: yaml.v3 is no longer maintained, and a file that is just being
// saved must not end a running coordinator.
func decodeDocument(data []byte) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("the YAML parser failed (%v); simplify the file", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	doc = &yaml.Node{}
	if err := decoder.Decode(doc); err != nil {
		return nil, err
	}
	second := &yaml.Node{}
	switch err := decoder.Decode(second); {
	case errors.Is(err, io.EOF):
		return doc, nil
	case err != nil:
		return nil, err
	default:
		return nil, fmt.Errorf("line %d: a second document begins; remove the `---` and what follows it", second.Line)
	}
}

var (
	yamlErrorLine = pattern.New(`^(?:yaml: )?(?:line ([0-9]+): )?`)
	// yamlBlockError matches the faults for which yaml.v3 names the line before
	// the one where the block begins.
	yamlBlockError = pattern.New(
		`^did not find expected (key|node content|'-' indicator|',' or '[\]}]'|<document start>)`)
	// yamlTabError matches what becomes of a tab, among others, where a line begins.
	yamlTabError = pattern.New(
		`^found (character that cannot start any token|a tab character that violates indentation)`)
	// yamlStarError matches what becomes of a pattern that stands without quotes.
	yamlStarError = pattern.New(`^(unknown anchor '|did not find expected alphabetic or numeric character)`)
)

// splitYAMLError takes the line number out of the parser's message; 1 if it
// gives none.
func splitYAMLError(err error) (line int, text string) {
	text = err.Error()
	found := yamlErrorLine.FindStringSubmatch(text)
	line, _ = strconv.Atoi(found[1])
	const longest = 200 // the parser repeats names of any length
	text = ClipTo(strings.TrimPrefix(text, found[0]), longest)
	if yamlStarError.MatchString(text) {
		text += "; a text that begins with * needs quotes"
	}
	if yamlBlockError.MatchString(text) {
		text += " in what begins here; look at its indentation, brackets and quotes"
		line++
	}
	return max(line, 1), text
}

// indentingTab finds the first tab with which a line begins, spaces and dashes aside, in that line
// or after it (yaml.v3 may name the line before); 0, 0: there is none.
func indentingTab(data []byte, from int) (line, column int) {
	for text := range bytes.Lines(data) {
		if line++; line < from {
			continue
		}
		begins := text[:len(text)-len(bytes.TrimLeft(text, " -\t"))]
		if i := bytes.IndexByte(begins, '\t'); i >= 0 {
			return line, i + 1
		}
	}
	return 0, 0
}

// plainTree refuses nesting beyond maxDepth, aliases, merge keys and tags.
func (d *Decoder) plainTree(n *yaml.Node, depth int) bool {
	ok := false
	switch {
	case depth > maxDepth:
		d.faultAt(n.Line, n.Column, "", "nested deeper than %d levels; nothing in %s is", maxDepth, d.File.Name)
	case n.Kind == yaml.AliasNode:
		d.faultAt(n.Line, n.Column, "",
			"the alias *%s is not allowed; write the value out (a text that begins with * needs quotes)", Clip(n.Value))
	case n.Tag == "!!merge":
		d.faultAt(n.Line, n.Column, "", "the merge key << is not allowed; write the keys out")
	case n.Style&yaml.TaggedStyle != 0:
		d.faultAt(n.Line, n.Column, "", "the tag %s is not allowed; remove it", Clip(n.Tag))
	default:
		ok = true
		for _, child := range n.Content {
			ok = d.plainTree(child, depth+1) && ok
		}
	}
	return ok
}
