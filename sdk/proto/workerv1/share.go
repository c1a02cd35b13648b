package workerv1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/sealed"
)

// A worker connects to the socket that Attach names. The agent sends one message of 16 bytes: "WEIRWRKR", the version and
// the number of descriptors, both uint32 in the machine's byte order; and beside it the descriptors: of the control
// file, and of the inputs file, which can only be mapped for reading. The worker maps them and answers with one byte, 1,
// or with a text that says why it does not serve, and closes. From then on neither side sends anything; the
// connection's end is the end of the service.
const (
	greeting     = "WEIRWRKR"
	greetingSize = 16
	ready        = 1
	maxComplaint = 1 << 10
)

// Offer hands the memory to a worker that has connected and waits until it serves.
func Offer(socket *net.UnixConn, control, inputs *os.File, deadline time.Time) error {
	if err := socket.SetDeadline(deadline); err != nil {
		return err
	}
	message := make([]byte, greetingSize)
	copy(message, greeting)
	binary.NativeEndian.PutUint32(message[8:], Version)
	binary.NativeEndian.PutUint32(message[12:], 2)
	rights := unix.UnixRights(int(control.Fd()), int(inputs.Fd()))
	if _, _, err := socket.WriteMsgUnix(message, rights, nil); err != nil {
		return fmt.Errorf("hand over the memory: %w", err)
	}
	answer := make([]byte, maxComplaint)
	n, err := socket.Read(answer)
	switch {
	case err != nil:
		return fmt.Errorf("the worker does not answer: %w", err)
	case n == 1 && answer[0] == ready:
		return socket.SetDeadline(time.Time{})
	}
	return fmt.Errorf("the worker does not serve: %s", answer[:n])
}

// Accept takes the memory from the agent. The caller answers with Ready.
func Accept(socket *net.UnixConn, deadline time.Time) (*Memory, error) {
	if err := socket.SetDeadline(deadline); err != nil {
		return nil, err
	}
	message, oob := make([]byte, greetingSize), make([]byte, unix.CmsgSpace(4*2))
	n, oobn, _, _, err := socket.ReadMsgUnix(message, oob)
	if err != nil {
		return nil, fmt.Errorf("receive the memory: %w", err)
	}
	files, err := rights(oob[:oobn])
	defer func() {
		for _, f := range files {
			_ = f.Close() // the mappings keep the memory
		}
	}()
	switch {
	case err != nil:
		return nil, err
	case n != greetingSize || string(message[:8]) != greeting || len(files) != 2:
		return nil, errors.New("the socket is no agent's for workers")
	}
	if v := binary.NativeEndian.Uint32(message[8:]); v != Version {
		return nil, fmt.Errorf("the agent offers version %d of the worker's memory, this is version %d: build plugin and engine from one release", v, Version)
	}
	control, err := sealed.MapAll(files[0], unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	inputs, err := sealed.MapAll(files[1], unix.PROT_READ)
	if err != nil {
		_ = unix.Munmap(control)
		return nil, err
	}
	m, err := OpenMemory(control, inputs)
	if err != nil {
		(&Memory{control: control, inputs: inputs}).Unmap()
		return nil, err
	}
	return m, nil
}

// Ready tells the agent that the worker serves, or why it does not.
func Ready(socket *net.UnixConn, err error) error {
	answer := []byte{ready}
	if err != nil {
		answer = []byte(err.Error())
		answer = answer[:min(len(answer), maxComplaint)]
	}
	if _, err := socket.Write(answer); err != nil {
		return fmt.Errorf("answer the agent: %w", err)
	}
	return socket.SetDeadline(time.Time{})
}

func rights(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // credentials and the like
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "weir-worker"))
		}
	}
	return files, nil
}

// Map maps the files of an offer for a rank, or for the agent.
func Map(control, inputs *os.File) (*Memory, error) {
	c, err := sealed.MapAll(control, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	i, err := sealed.MapAll(inputs, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		_ = unix.Munmap(c)
		return nil, err
	}
	m, err := OpenMemory(c, i)
	if err != nil {
		(&Memory{control: c, inputs: i}).Unmap()
		return nil, err
	}
	return m, nil
}

// Ended waits until the other side closes the connection, whatever it sends.
func Ended(socket *net.UnixConn) { _, _ = io.Copy(io.Discard, socket) }
