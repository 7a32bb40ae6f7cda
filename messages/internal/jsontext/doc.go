// Package jsontext walks JSON text once, without decoding it.
//
// A [Scanner] holds a text to JSON, without duplicate keys, and to bounds of depth, number and size; its typed
// readers give values to those that know what they expect. It must never accept what encoding/json would not, know a
// field of a message, or copy what is not asked for.
package jsontext
