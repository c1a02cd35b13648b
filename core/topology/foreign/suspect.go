package foreign

// suspect warns of what a text shows that is contradictory, hidden or a fault of the machine.
func (b *builder) suspect() {}
