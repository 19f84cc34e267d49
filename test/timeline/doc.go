// Package timeline opens the page of `journalet timeline --file` in a headless Chromium, and does what a person does
// with it: zoom, filter, hover, select. It also takes the pictures of the documents.
//
// It is a module of its own for the library that drives the browser. Run it by `make timeline-test`, which installs
// Chromium; start with page_test.go.
package timeline
