package fakecsi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// deviceBytes is the size of a block device.
	deviceBytes = 4 << 20
	// attachTries bounds the tries to get a loop device that another process has not got meanwhile.
	attachTries = 16
)

// attach returns the loop device of a volume's image. It creates both if the image is not attached.
func attach(image string) (device string, err error) {
	if device = Attached(image); device != "" {
		return device, nil
	}
	if err := os.MkdirAll(filepath.Dir(image), 0o750); err != nil {
		return "", err
	}
	file, err := os.OpenFile(image, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := file.Truncate(deviceBytes); err != nil {
		return "", err
	}
	loop, err := Loop(file, 0)
	if err != nil {
		return "", err
	}
	return loop.Name(), loop.Close()
}

// Loop has a free loop device show a file, and opens the device. flags are the flags of linux/loop.h.
func Loop(file *os.File, flags uint32) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range attachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("get a free loop device: %w", err)
		}
		loop, err := configure(n, int(file.Fd()), flags)
		if !errors.Is(err, unix.EBUSY) {
			return loop, err
		}
	}
	return nil, errors.New("every free loop device was taken by another process")
}

// configure has the n-th loop device show a file.
func configure(n, file int, flags uint32) (*os.File, error) {
	device := fmt.Sprintf("/dev/loop%d", n)
	// Without udev nobody else creates it. 7 is the number of loop devices.
	err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("create %s: %w", device, err)
	}
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(file), Info: unix.LoopInfo64{Flags: flags}}
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err != nil {
		return nil, errors.Join(fmt.Errorf("configure %s: %w", device, err), loop.Close())
	}
	return loop, nil
}

// Attached returns the loop device of an image; "" if the image is not attached.
func Attached(image string) string {
	all, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is valid
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == image {
			return "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(path)))
		}
	}
	return ""
}

// detach removes the loop device of an image; nothing without one.
func detach(image string) error {
	device := Attached(image)
	if device == "" {
		return nil
	}
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer loop.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
		return fmt.Errorf("detach %s: %w", device, err)
	}
	return nil
}
