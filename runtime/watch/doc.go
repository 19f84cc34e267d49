// Package watch is what drivers of files that an operator writes share: notifications of a directory, the stamp
// that a change shows in, a read that is not torn by a writer, and a timer. It does not know what the files hold. Start
// reading at notify.go.
package watch
