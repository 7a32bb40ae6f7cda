package yamlconf

import (
	"bytes"

	"gopkg.in/yaml.v3"
)

// Encode writes a tree as a file; empty if that fails.
func Encode(root *yaml.Node) (source string) {
	defer func() {
		if recover() != nil { // see Decoder.Parse
			source = ""
		}
	}()
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if encoder.Encode(root) != nil || encoder.Close() != nil {
		return ""
	}
	return text.String()
}

// WithoutComments copies a tree.
func WithoutComments(n *yaml.Node) *yaml.Node {
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Content: make([]*yaml.Node, len(n.Content))}
	if IsNull(n) {
		c.Value = "null" // the encoder takes a value with nothing in it for a text
	}
	for i, child := range n.Content {
		c.Content[i] = WithoutComments(child)
	}
	return c
}

// TextNode is a text as a node.
func TextNode(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
