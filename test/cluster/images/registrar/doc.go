// Command registrar stands in for upstream's csi-node-driver-registrar in the images that end-to-end tests pull: it
// registers the CSI driver of its pod with the agent of the node. Nothing but these images has it. Start reading at
// run.
package main
