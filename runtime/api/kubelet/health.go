package kubelet

// healthRoutes registers /healthz and the check of each name below it.
func (s *Server) healthRoutes() {
	if s.Health == nil {
		s.handle("GET", "/healthz", absent("healthz"))
		return
	}
	s.get("/healthz", s.Health.ServeHTTP)
	s.get("/healthz/{check}", s.Health.ServeHTTP)
}
