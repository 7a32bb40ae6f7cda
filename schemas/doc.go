// Package schemas answers one question: does this JSON value have the shape
// that a message of its type must have?
//
// There is one file for each message type, in the draft-07 subset of JSON
// Schema, embedded in the binary; asyncapi.yaml describes the channels and
// refers to the same files, openapi.yaml the HTTP interface. Each property's description is written as what is
// expected of the value, because a refusal quotes it; x-meaning says what it means, as Markdown for
// docs/reference.
//
// The schemas are flat and without $ref: validation stays cheap, and the place
// of a violated keyword leads straight to its description.
//
// It must never load anything that is not embedded, and never see a number as
// json.Number: version 5 of the validator crashes on large exponents of those.
package schemas
