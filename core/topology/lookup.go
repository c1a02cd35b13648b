package topology

// At is the link from a to b; one that links does not hold is unknown.
func At(links [][]Link, a, b int) Link { return at(links, a, b) }

// Words is the class as people call it: "NVLink" for NV.
func (c Class) Words() string {
	if c == NVLink {
		return "NVLink"
	}
	return string(c)
}
