package scale

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// audit reads what the API server recorded about the operator's writes.
type audit struct {
	file *os.File
	rest *bufio.Reader
	// line is the beginning of a line that the API server has not finished.
	line []byte
}

func openAudit(path string) (*audit, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return &audit{file: f, rest: bufio.NewReader(f)}, nil
}

// writes counts writes by verb and resource.
type writes struct {
	by        map[string]int
	all       int
	conflicts int
}

// next counts the writes since the last call.
func (a *audit) next() (writes, error) {
	out := writes{by: map[string]int{}}
	for {
		part, err := a.rest.ReadBytes('\n')
		a.line = append(a.line, part...)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("read audit log: %w", err)
		}
		if err := out.count(a.line); err != nil {
			return out, err
		}
		a.line = a.line[:0]
	}
}

func (w *writes) count(line []byte) error {
	var e struct {
		Verb      string `json:"verb"`
		ObjectRef struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
		} `json:"objectRef"`
		ResponseStatus struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	what := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	switch {
	case e.ResponseStatus.Code == http.StatusConflict:
		w.conflicts++
	case e.ObjectRef.Resource == "tokenreviews" || e.ObjectRef.Resource == "subjectaccessreviews": // questions, which store nothing
	case e.ResponseStatus.Code < http.StatusMultipleChoices:
		w.by[what]++
		w.all++
	}
	return nil
}
