package foreign

// readTables reads every matrix and every line on a single GPU.
func readTables(src source) ([]Reading, error) {
	s := &scanner{src: src, toks: tokenize(string(src.text))}
	if err := s.run(); err != nil {
		return nil, err
	}
	var readings []Reading
	for _, m := range machines(s.sections) {
		r, ok, err := m.reading(s)
		if err != nil {
			return nil, err
		}
		if ok {
			readings = append(readings, r)
		}
	}
	return readings, nil
}
