// Package podresources serves the API PodResources v1 on a socket: which pod has which devices, and what is
// allocatable. Monitors of devices read it. It knows neither actors nor the journal: both come as functions.
package podresources
