// Package view answers: what does a coordinator show over HTTP?
//
// A type here is the only description of its thing: the engine and the service fill it, httpapi answers with it, the
// commands read it, and schemas/openapi.yaml is written from it, with the comments. It must never decide or ask
// anything: it is data and what follows from that data alone.
package view
