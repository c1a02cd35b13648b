package main

import (
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/ondevice"
)

// device is what a rank has on its device; nothing without one.
type device struct{ on *ondevice.Program }

func (p *program) open() (err error) {
	p.on, err = ondevice.Open(p.session.World())
	return err
}

func (d *device) close() error {
	if d.on == nil {
		return nil
	}
	return d.on.Close()
}

// onDevice makes a call in device memory, of float32 sums that fit the buffers.
func (p *program) onDevice(g *rank.Group, c call, number int) error {
	d := p.on
	c.dataType, c.op, c.elements = collective.Float32, collective.Sum, 1+c.elements%(ondevice.Bytes/4)
	numbers := make([]float32, c.elements)
	for i := range numbers {
		numbers[i] = value[float32](g.Rank(), i, number)
	}
	dst := d.Dst
	if c.inPlace {
		dst = d.Src
	}
	if err := d.ToDevice(d.Src, ondevice.Raw(numbers)); err != nil {
		return err
	}
	err := d.Sum(g, dst, d.Src, c.elements)
	if err == nil {
		err = d.SynchronizeStream(d.Stream)
	}
	if err == nil {
		err = d.ToHost(ondevice.Raw(numbers), dst)
	}
	if err == nil {
		err = compare(numbers, g.Size(), c, number)
	}
	if err != nil && failing(g) { // a group that fails fills its outputs with what nobody may take for a result
		return g.Err()
	}
	return err
}

// failing waits for a moment for a group's failure.
func failing(g *rank.Group) bool {
	await.Poll(await.For(3*time.Second), func() bool { return g.Err() != nil })
	return g.Err() != nil
}
