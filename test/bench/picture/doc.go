// Package picture draws what a trace found, as SVG files for the documents: dark cards in the manner of docs/pods.svg, so
// that they read alike on a light and on a dark page, and light enough to be kept in the repository. It measures nothing;
// the same data make the same bytes. Start with canvas.go; each picture has a file of its own.
package picture
