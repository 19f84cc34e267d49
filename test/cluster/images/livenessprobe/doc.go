// Command livenessprobe stands in for upstream's program of that name in the images that end-to-end tests pull: it
// reports over HTTP whether the CSI driver of its pod answers. Nothing but these images has it. Start reading at main.
package main
