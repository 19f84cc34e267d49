package bus

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs tells whether this process's user owns a file.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
