package journal

import (
	"encoding/binary"
	"iter"
)

// MaxPiece is how many bytes of a message the journal takes at a time: one that is larger goes there
// in pieces. Most messages are cut between their records long before (see MaxMessage); what is left is
// a record, an input or a part of a snapshot that is large by itself, and brokers have a bound.
const MaxPiece = 1 << 20

// Piece says which bytes of which message one of KindPiece holds. Its header is that of the whole, but
// for the count.
type Piece struct {
	// Of is the kind of the whole, Size its length and Sum its checksum: together with epoch and First
	// they distinguish it from others whose pieces come in between.
	Of   Kind   `rec:"1"`
	Size int    `rec:"2"`
	Sum  uint32 `rec:"3"`
	// From is where in the whole its bytes begin.
	From int `rec:"4"`
}

// pieceOf identifies the message of a piece, where the pieces of several come mixed.
type pieceOf struct {
	kind         Kind
	epoch, first uint64
	size         int
	sum          uint32
}

// Pieces gives what is to be published for a message, in order: the message itself, unless it is larger
// than MaxPiece.
func Pieces(body []byte) iter.Seq[[]byte] { return pieces(body, MaxPiece) }

func pieces(body []byte, most int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(body) <= most {
			yield(body)
			return
		}
		_, h, err := openMessage(body)
		if err != nil {
			yield(body) // none of ours: its reader gets an error that says what it is
			return
		}
		p := Piece{Of: h.Kind, Size: len(body), Sum: sumOf(body)}
		h.Kind, h.Count = KindPiece, 0
		for ; p.From < len(body); p.From += most {
			var c coder
			c.begin(h.At)
			c.out = body[p.From:min(p.From+most, len(body))]
			if !yield(c.appendMessage(make([]byte, 0, len(c.out)+2*spaceForHeader), h, &p)) {
				return
			}
		}
	}
}

// Joiner puts the pieces of messages together again. What is left unfinished by a leader is dropped
// with the first message of a later one. The zero Joiner is ready for use; it is not safe for
// concurrent use.
type Joiner struct {
	epoch uint64
	open  map[pieceOf][]byte
}

// Take takes the next message of the journal, and gives the one that is to be read: itself, or the one
// of which it is the last piece; nil where pieces are missing yet. The error is that of [DecodeHeader],
// or a *CorruptError.
func (j *Joiner) Take(body []byte) ([]byte, error) {
	if !isPiece(body) && len(j.open) == 0 {
		return body, nil // as nearly always, and its reader checks it
	}
	c, h, err := openMessage(body)
	if err != nil {
		j.Drop() // it may have been a piece
		return nil, err
	}
	if h.Epoch > j.epoch {
		j.Drop()
		j.epoch = h.Epoch
	}
	if h.Kind != KindPiece {
		return body, nil
	}
	var p Piece
	if c.special(&h, &p); c.bad != "" {
		j.Drop()
		return nil, corrupt(c.bad)
	}
	if h.Epoch < j.epoch {
		return nil, nil // void
	}
	return j.add(&h, &p, c.in)
}

// add takes the bytes of a piece.
func (j *Joiner) add(h *Header, p *Piece, bytes []byte) ([]byte, error) {
	key := pieceOf{p.Of, h.Epoch, h.First, p.Size, p.Sum}
	have := j.open[key]
	switch {
	case p.From != len(have):
		return nil, nil // its beginning is not there any more, or it came twice
	case len(bytes) == 0, len(bytes) > p.Size-p.From:
		j.Drop()
		return nil, corrupt(impossible)
	}
	have = append(have, bytes...)
	if len(have) < p.Size {
		if j.open == nil {
			j.open = make(map[pieceOf][]byte)
		}
		j.open[key] = have
		return nil, nil
	}
	delete(j.open, key)
	if len(have) < fieldsAt || sumOf(have) != p.Sum || isPiece(have) {
		return nil, corrupt("its pieces are not those of one message")
	}
	return have, nil
}

// Open reports whether a message is unfinished: what comes next is understood only with its beginning.
func (j *Joiner) Open() bool { return len(j.open) > 0 }

// Drop forgets what is unfinished.
func (j *Joiner) Drop() { j.open = nil }

// isPiece reports whether a message is one of KindPiece, as far as its first bytes say.
func isPiece(body []byte) bool {
	return len(body) > kindAt && string(body[:len(magic)]) == magic && body[versionAt] == FormatVersion &&
		Kind(body[kindAt]) == KindPiece
}

// sumOf is the checksum that a message carries.
func sumOf(body []byte) uint32 { return binary.LittleEndian.Uint32(body[len(magic):]) }
