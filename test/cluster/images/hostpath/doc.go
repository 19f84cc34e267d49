// Command hostpath stands in for upstream's hostpathplugin in the images that end-to-end tests pull: a CSI driver whose
// volumes are directories, or files behind loop devices, or, with a proxy endpoint, what hands the connections of its
// socket on to a driver that runs within the tests. It writes every call as the tests read it. Nothing but these images
// has it. Start reading at main; volume.go is what it keeps, driver.go and node.go are the calls.
package main
