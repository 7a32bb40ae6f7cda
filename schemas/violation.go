package schemas

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Violation is the first way in which a value does not fit its schema, in the
// order of instance paths, so that equal values give equal violations.
type Violation struct {
	// Schema that was violated: a message type.
	Schema string
	// Path of the offending value as a JSON pointer, "" for the whole message.
	// It may hold keys of the message: it is not cleaned or shortened.
	Path string
	// Keyword of the schema: "required", "type", "pattern", "maximum", …
	Keyword string
	// Text says what is wrong and what was expected, for people. Of the value
	// itself it quotes numbers only.
	Text string
	// More is how many further violations there are.
	More int
}

// Error gives path, text and the number of further violations.
func (v *Violation) Error() string {
	where := v.Path
	if where == "" {
		where = "the message"
	}
	if v.More > 0 {
		return fmt.Sprintf("%s: %s (and %d more)", where, v.Text, v.More)
	}
	return where + ": " + v.Text
}

// violation chooses among the validator's findings, which come in the random
// order of a map.
func (s schema) violation(name string, found *jsonschema.ValidationError) *Violation {
	leaves := leaves(found, nil)
	first := slices.MinFunc(leaves, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			cmp.Compare(a.InstanceLocation, b.InstanceLocation),
			cmp.Compare(a.KeywordLocation, b.KeywordLocation),
		)
	})
	parent, keyword := "", first.KeywordLocation
	if i := strings.LastIndexByte(keyword, '/'); i >= 0 {
		parent, keyword = keyword[:i], keyword[i+1:]
	}
	text := first.Message
	switch keyword {
	case "type":
		text = kindOf(text)
	case "required":
		text = missing(text)
	}
	if expected := s.description(parent); expected != "" {
		switch keyword {
		case "pattern", "not", "const", "enum":
			text = "expected " + expected
		default:
			text += "; expected " + expected
		}
	}
	// The validator escapes paths for use in URLs as well.
	path, err := url.PathUnescape(first.InstanceLocation)
	if err != nil {
		path = first.InstanceLocation
	}
	return &Violation{Schema: name, Path: path, Keyword: keyword, Text: text, More: len(leaves) - 1}
}

// kindOf puts a violation of the keyword type in words that do without those of JSON Schema: what the validator says is
// "expected object, but got string". What was expected the description says, where there is one.
func kindOf(text string) string {
	expected, got, found := strings.Cut(strings.TrimPrefix(text, "expected "), ", but got ")
	if !found {
		return text
	}
	words := map[string]string{
		"string": "text", "number": "a number", "integer": "a whole number", "boolean": "true or false", "null": "null",
		"array": "a list", "object": "an object",
	}
	if expected == "integer" && got == "number" {
		got = "a number that is not whole"
	}
	return "is " + cmp.Or(words[got], got) + ", not " + cmp.Or(words[expected], expected)
}

// missing puts a violation of the keyword required, "missing properties: 'task_id', 'payload'", in a sentence.
func missing(text string) string {
	names, found := strings.CutPrefix(text, "missing properties: ")
	switch names = strings.ReplaceAll(names, "'", ""); {
	case !found:
		return text
	case strings.Contains(names, ","):
		return names + " are missing"
	default:
		return names + " is missing"
	}
}

func leaves(e *jsonschema.ValidationError, dst []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(dst, e)
	}
	for _, cause := range e.Causes {
		dst = leaves(cause, dst)
	}
	return dst
}

// description is the one beside a keyword: the place is a JSON pointer into the
// schema file, which holds no $ref. The file's own description is not meant: it
// tells what the message is, not what is expected of a value.
func (s schema) description(place string) string {
	at := s.doc
	if place == "" {
		return ""
	}
	for _, name := range strings.Split(place[1:], "/") {
		object, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	object, ok := at.(map[string]any)
	if !ok {
		return ""
	}
	text, _ := object["description"].(string)
	return text
}
