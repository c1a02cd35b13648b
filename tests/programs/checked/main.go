// Command checked makes all-reduces of random sizes, types, ops and placements, in one group or several, the same on every
// rank by a seed, and compares every element of every result. It counts its calls, so that one that is lost or doubled is
// noticed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "of the calls, the same on every rank")
	flag.IntVar(&o.calls, "calls", 1000, "number of `calls`")
	flag.IntVar(&o.max, "max", 64<<10, "most `elements` of a call")
	flag.DurationVar(&o.pause, "pause", 0, "longest random `pause` of a rank before a call")
	flag.StringVar(&o.op, "op", "", "only this reduce `op`, of int32")
	flag.DurationVar(&o.limit, "for", 0, "go on for so long instead of a number of calls")
	flag.StringVar(&o.until, "until", "", "go on until there is this `file` instead of a number of calls")
	flag.IntVar(&o.groups, "groups", 0, "`number` of groups beside that of all ranks; they are left and made anew now and then")
	flag.BoolVar(&o.device, "device", false, "all-reduce float32 sums in device memory")
	flag.BoolVar(&o.again, "again", false, "go on after a call that no backend serves")
	for name, about := range map[string]string{
		"other-size": "is one element longer than the others'",
		"other-type": "is of another data type than the others'",
		"other-op":   "is of another op than the others'",
		"exits":      "is not made: the process ends without leaving its groups",
		"late":       "comes a quarter of a second after the others'",
		"wrong":      "is corrupted by the program itself (a defect to be found)",
		"lost":       "is not made (a defect to be found)",
		"double":     "is made twice (a defect to be found)",
	} {
		flag.Func(name, "a `rank@call`, or rank@file for the next call once there is the file, that "+about, func(s string) error { o.odd = append(o.odd, odd{s, name}); return nil })
	}
	flag.StringVar(&o.leave, "leave", "", "start this `program` in a session of its own and leave it behind (a defect to be found)")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintf(os.Stderr, "checked: %s\n", err)
		os.Exit(1)
	}
}

type options struct {
	seed          uint64
	calls, max    int
	pause         time.Duration
	op            string
	limit         time.Duration
	until         string
	groups        int
	device, again bool
	odd           []odd
	leave         string
}

// odd is a call of one rank that is not like the others'.
type odd struct{ at, how string }

// how is what is odd about a call; "" if nothing is.
func (o options) how(rank, number int) string {
	for _, x := range o.odd {
		who, when, _ := strings.Cut(x.at, "@")
		if who != strconv.Itoa(rank) {
			continue
		}
		_, missing := os.Stat(when)
		if when == strconv.Itoa(number) || strings.HasPrefix(when, "/") && missing == nil {
			return x.how
		}
	}
	return ""
}

func run(ctx context.Context, o options) error {
	p := &program{options: o}
	device := ""
	if o.device {
		device = rank.DeviceAuto
	}
	var err error
	if p.session, err = rank.Join(ctx, rank.Options{Device: device}); err != nil {
		return err
	}
	if o.device {
		if err := p.open(); err != nil {
			return err
		}
	}
	if o.leave != "" && p.session.World().Rank() == 0 {
		if err := desert(o.leave); err != nil {
			return err
		}
	}
	n, err := p.run(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("rank %d: %d calls, all right\n", p.session.World().Rank(), n)
	if p.failed > 0 {
		fmt.Printf("rank %d: %d calls had no backend\n", p.session.World().Rank(), p.failed)
	}
	return errors.Join(p.close(), p.session.Close())
}

// program is a rank at work.
type program struct {
	options
	session *rank.Session
	same    *rand.Rand // as on all ranks
	groups  []*group
	failed  int // calls that no backend served
	device
}

// underWay is a call by which all classes of a program with one op are decided.
const underWay = 40

// run makes the calls and says how many there were, of all groups together.
func (p *program) run(ctx context.Context) (number int, err error) {
	g := p.session.World()
	own := rand.New(rand.NewPCG(p.seed, uint64(g.Rank())+1))
	p.same = rand.New(rand.NewPCG(p.seed, 0))
	start := time.Now()
	for number = 1; ; number++ {
		if p.pause > 0 && own.IntN(8) == 0 {
			time.Sleep(time.Duration(own.Int64N(int64(p.pause))))
		}
		if number == 2 && g.Rank() == 0 {
			fmt.Println("calling")
		}
		if number == underWay {
			fmt.Println("under way")
		}
		if err := p.regroup(ctx, number); err != nil {
			return number, fmt.Errorf("before call %d: %w", number, err)
		}
		if err := p.call(number); err != nil {
			return number, err
		}
		over, err := number == p.calls, error(nil)
		if p.limit > 0 || p.until != "" {
			over, err = p.late(number, start)
		}
		if err != nil || over {
			return number, err
		}
	}
}

// call draws a call and makes it, if this rank is a member of its group.
func (p *program) call(number int) error {
	g := p.choose()
	c := draw(p.same, p.options)
	if g == nil {
		return nil
	}
	how := p.how(p.session.World().Rank(), number)
	c.change(how)
	switch how {
	case "exits":
		os.Exit(0)
	case "late":
		time.Sleep(250 * time.Millisecond)
	case "lost":
		return nil
	}
	err := p.make(g, c, number)
	if err == nil && how == "double" {
		err = p.make(g, c, number)
	}
	if err != nil && p.again && g.Err() == nil && noBackend(err) {
		p.failed++
		return nil
	}
	if err != nil {
		return fmt.Errorf("call %d (%s): %w", number, c, err)
	}
	return nil
}

// late has rank 0 say, now and then, whether it is time to end, so that all ranks end after the same call.
func (p *program) late(number int, start time.Time) (bool, error) {
	g := p.session.World()
	if number%16 != 0 {
		return false, nil
	}
	flag := []int32{0}
	if g.Rank() == 0 {
		_, missing := os.Stat(p.until)
		if p.limit > 0 && time.Since(start) > p.limit || p.until != "" && missing == nil {
			flag[0] = 1
		}
	}
	for {
		err := rank.AllReduce(g, flag, flag, collective.Max)
		if err == nil || !p.again || !noBackend(err) {
			return flag[0] != 0, err
		}
		p.failed++ // on all ranks
	}
}
