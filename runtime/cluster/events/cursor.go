package events

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// cursorFile is the file of the cursor in the agent's root directory.
const cursorFile = own.EventsCursor

// maxCursorBytes bounds that file.
const maxCursorBytes = 64

// cursorIn is a cursor in the file of this path.
type cursorIn string

// Load implements Cursor.
func (path cursorIn) Load() (uint64, bool, error) { return readCursor(string(path)) }

// Save implements Cursor.
func (path cursorIn) Save(seq uint64) error { return writeCursor(string(path), seq) }

// readCursor returns the last record whose events the API server has, false if none is known.
func readCursor(path string) (uint64, bool, error) {
	b, err := bounded.ReadFile(path, maxCursorBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	seq, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return seq, err == nil, err
}

// writeCursor replaces the cursor. It is not synced: an old one costs requests that find their event.
func writeCursor(path string, seq uint64) error {
	if err := os.WriteFile(path+".new", []byte(strconv.FormatUint(seq, 10)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
