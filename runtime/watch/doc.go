// Package watch is what drivers of files that an operator writes share: which files a path has, and which of them have
// changed, by notifications and by stamps; a read that is not torn by a writer, and a timer. It does not know what the
// files hold. Start reading at files.go.
package watch
