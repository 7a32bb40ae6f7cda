// Package journal answers: what does the journal say, and how is it copied and begun with a copy?
//
// It is `taskbus journal`. It reads the stream beside a coordinator and takes nothing out of it. It must never write
// to a journal that is not empty, or while a coordinator leads.
package journal
