// Package plugins finds the plugins of the node: it watches a directory where they create sockets, requests what they
// are, and has a handler for their type use them, as a kubelet's plugin watcher does. It waits for notifications and
// polls nothing. Files and responses of plugins are untrusted: sockets only, no links, bounded in number and size, each
// call with a deadline. Start with watch.go, then register.go; socket.go has what servers for plugins need, too.
package plugins
