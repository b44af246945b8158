package rootfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// headerSize is the size of a header of the format "newc": a magic and 13 numbers of 8 hexadecimal digits.
const headerSize = 6 + 13*8

// maxName bounds the name of an entry, in bytes.
const maxName = 4096

// Extract reads an archive that Archive wrote and hands the content of each file to keep, which may leave it unread.
func Extract(r io.Reader, keep func(name string, size int64, content io.Reader) error) error {
	in := &padded{r: bufio.NewReaderSize(r, 1<<20)}
	for {
		name, size, err := in.header()
		if err != nil {
			return fmt.Errorf("read initramfs: %w", err)
		}
		if name == trailer {
			return nil
		}
		content := io.LimitReader(in, size)
		if err := keep(name, size, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return fmt.Errorf("read initramfs: %w", err)
		}
		if err := in.align(); err != nil {
			return fmt.Errorf("read initramfs: %w", err)
		}
	}
}

// padded counts what was read, because names and contents are padded to multiples of four bytes.
type padded struct {
	r    io.Reader
	read int64
}

func (p *padded) Read(into []byte) (int, error) {
	n, err := p.r.Read(into)
	p.read += int64(n)
	return n, err
}

func (p *padded) align() error {
	_, err := io.CopyN(io.Discard, p, -p.read&3)
	return err
}

func (p *padded) header() (name string, size int64, err error) {
	raw := make([]byte, headerSize)
	if _, err := io.ReadFull(p, raw); err != nil {
		return "", 0, err
	}
	if string(raw[:6]) != magic {
		return "", 0, errors.New("an entry does not begin with " + magic)
	}
	number := func(i int) (int64, error) { return strconv.ParseInt(string(raw[6+8*i:14+8*i]), 16, 64) }
	size, err = number(6)
	if err != nil {
		return "", 0, fmt.Errorf("read size of an entry: %w", err)
	}
	length, err := number(11)
	if err != nil || length < 1 || length > maxName {
		return "", 0, errors.Join(fmt.Errorf("the name of an entry has %d bytes", length), err)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(p, text); err != nil {
		return "", 0, err
	}
	return string(text[:length-1]), size, p.align()
}
