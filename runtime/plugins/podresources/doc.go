// Package podresources serves the API PodResources on a socket, v1 and the list of v1alpha1: which pod has which
// devices, and what is allocatable. Monitors of devices read it. It knows neither actors nor the journal: both come as
// functions.
package podresources
