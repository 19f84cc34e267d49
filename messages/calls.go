package messages

import "github.com/journalet/journalet/messages/journaletv1"

// IsAboutClaims reports whether a call reads the claims of a pod, or has DRA drivers prepare or unprepare them.
func IsAboutClaims(req *journaletv1.CallRequested) bool {
	return req.GetReadClaims() != nil || req.GetPrepareClaims() != nil || req.GetUnprepareClaims() != nil
}

// IsAboutDevices reports whether a call is one on device plugins.
func IsAboutDevices(req *journaletv1.CallRequested) bool {
	return req.GetAllocateDevices() != nil || req.GetPreStartContainer() != nil
}
