// Package yamlconf answers one question: what does this YAML file say, and what is wrong with it?
//
// It parses one document ([Decoder.Parse]) and hands every key to the [Reader] of its value. Readers come from the
// methods of [Decoder] (Whole, Seconds, OneOf, …), each with the range that it accepts and the destination that it
// fills; the destination's content is the default. Every fault is collected, with line, column, path, and what to do.
//
// The same readers tell what they accept without a file ([Describe]): the editors' schemas are held to that.
//
// # What it must never do
//
// It never panics for bad input, never stops at the first fault, never repeats the value of a key that is not known,
// and knows nothing of what the keys mean.
package yamlconf
