package criteria

// Key tells tasks apart: those with equal keys are of one class. It is a list of parts, each a list of values: the
// criteria's first, in the order of All, then the caller's. Its buffer is used again.
//
// Every value is marked with its part, but for the first of the first part; no value contains a mark. So no two lists
// give the same key. Rows of equally many tasks go into lanes in the order of their keys: marks stay what they are.
type Key struct {
	bytes []byte
	mark  byte
	begun bool // the first part has a value
}

// Marks that are left for parts of the caller. The criteria's are 0, 1, 5, 6 and so on.
const (
	Mark2    = 2
	Mark3    = 3
	Mark4    = 4
	MarkLast = 0x0f
	escape   = 0x10 // stands before a byte of a value that is no more than it
)

func markOf(criterion int) byte {
	if criterion < Mark2 {
		return byte(criterion)
	}
	return byte(criterion - Mark2 + Mark4 + 1)
}

// Begin starts a key with what the task asks by the criteria.
func (k *Key) Begin(n Needs) {
	k.bytes, k.begun = k.bytes[:0], false
	for i, c := range All {
		k.mark = markOf(i)
		c.Key(k, n)
	}
}

// Part begins a part of the caller.
func (k *Key) Part(mark byte) { k.mark = mark }

// Bytes is the key. It is valid until the next Begin.
func (k *Key) Bytes() []byte { return k.bytes }

// Add adds a value to the part.
func (k *Key) Add(value string) {
	if k.mark > 0 || k.begun {
		k.bytes = append(k.bytes, k.mark)
	}
	k.begun = true
	written := 0
	for i := range len(value) {
		if b := value[i]; b <= escape {
			k.bytes = append(append(k.bytes, value[written:i]...), escape, b+'@')
			written = i + 1
		}
	}
	k.bytes = append(k.bytes, value[written:]...)
}
