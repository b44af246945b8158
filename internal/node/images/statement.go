package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// statementSuffix ends the name of the statement that is kept beside an image. It goes with the image.
const statementSuffix = ".statement"

// knownStatement is the statement that proved an image before.
func (s *Store) knownStatement(image inventory.Digest) (artifact.Statement, error) {
	text, err := os.ReadFile(s.path(image) + statementSuffix)
	if err != nil {
		return artifact.Statement{}, fmt.Errorf("read statement: %w", err)
	}
	return artifact.ParseStatement(text)
}

// keepStatement keeps a statement that proved an image. One that is torn by a crash is fetched again.
func (s *Store) keepStatement(image inventory.Digest, text []byte) error {
	if err := os.WriteFile(s.path(image)+statementSuffix, text, 0o600); err != nil {
		return fmt.Errorf("keep statement: %w", err)
	}
	return nil
}

// fetchStatement asks the operator who signed what the image came from.
func (s *Store) fetchStatement(ctx context.Context, image inventory.Digest) ([]byte, error) {
	failed := tries{store: s}
	for {
		var text []byte
		err := s.connected(func(client *http.Client) (err error) {
			client.Timeout = s.config.StallTimeout
			text, err = s.requestStatement(ctx, client, image)
			return err
		})
		switch {
		case err == nil:
			return text, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		case errors.Is(err, errDone):
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if err := failed.pause(ctx, err); err != nil {
			return nil, err
		}
	}
}

func (s *Store) requestStatement(ctx context.Context, client *http.Client, image inventory.Digest) ([]byte, error) {
	token, err := os.ReadFile(s.config.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read token for the image server: %w", err)
	}
	url := strings.TrimSuffix(s.config.Server, "/") + "/statements/" + image.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: make request: %w", errDone, err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request statement: %w", err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w: the operator knows nothing of signatures; update it", errDone)
	case res.StatusCode != http.StatusOK:
		return nil, s.refused(res, image)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, artifact.MaxStatementBytes+1))
	if err != nil {
		return nil, fmt.Errorf("receive statement: %w", err)
	}
	return text, nil
}
