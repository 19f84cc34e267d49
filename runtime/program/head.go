package program

// Head keeps the first bytes that a program writes to it, and takes all: a program that cannot write would fail.
type Head struct {
	// Kept is what it keeps, Most how many bytes at most.
	Kept []byte
	Most int
}

// Write takes all, and keeps what there is room for.
func (h *Head) Write(b []byte) (int, error) {
	h.Kept = append(h.Kept, b[:min(len(b), h.Most-len(h.Kept))]...)
	return len(b), nil
}
