package luks

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parseToken reads what the token of a keyslot needs to open it.
func parseToken(kind string, token []byte) (Way, error) {
	switch kind {
	case "systemd-tpm2":
		return parseTPM2(token)
	case "clevis":
		var t struct{ JWE struct{ Protected string } }
		if err := json.Unmarshal(token, &t); err != nil {
			return Way{}, err
		}
		return parseClevis(t.JWE.Protected, 0)
	case "systemd-recovery", "systemd-fido2", "systemd-pkcs11", "luks2-keyring":
		return Way{Attended: true}, nil
	}
	return Way{}, errors.New("this kind of token is not known")
}

// parseTPM2 reads a token of systemd-cryptenroll. Its fields are spelled in two ways.
func parseTPM2(token []byte) (Way, error) {
	var t struct {
		PCRs    *[]int `json:"tpm2-pcrs"`
		Signed  []int  `json:"tpm2_pubkey_pcrs"`
		PCRLock bool   `json:"tpm2_pcrlock"`
		PIN     bool   `json:"tpm2-pin"`
	}
	if err := json.Unmarshal(token, &t); err != nil {
		return Way{}, err
	}
	if t.PCRs == nil {
		return Way{}, errors.New("it names no PCRs")
	}
	return bound(Way{PCRs: append(*t.PCRs, t.Signed...), Policy: t.PCRLock, Attended: t.PIN})
}

// bound checks the numbers of PCRs.
func bound(w Way) (Way, error) {
	for _, pcr := range w.PCRs {
		if pcr < 0 || pcr > 23 {
			return Way{}, fmt.Errorf("there is no PCR %d", pcr)
		}
	}
	return w, nil
}

// maxDepth bounds secrets that are shared among shared secrets.
const maxDepth = 4

// parseClevis reads the protected header of a JWE that clevis made.
func parseClevis(protected string, depth int) (Way, error) {
	header, err := base64.RawURLEncoding.DecodeString(protected)
	if err != nil {
		return Way{}, err
	}
	var h struct {
		Clevis struct {
			Pin  string
			TPM2 struct {
				PCRs string `json:"pcr_ids"`
			}
			SSS struct {
				T   int
				JWE []string
			}
		}
	}
	if err := json.Unmarshal(header, &h); err != nil {
		return Way{}, err
	}
	switch h.Clevis.Pin {
	case "tang", "null":
		return Way{}, nil
	case "pkcs11":
		return Way{Attended: true}, nil
	case "tpm2":
		var w Way
		for id := range strings.SplitSeq(h.Clevis.TPM2.PCRs, ",") {
			if id = strings.TrimSpace(id); id == "" {
				continue
			}
			pcr, err := strconv.Atoi(id)
			if err != nil {
				return Way{}, fmt.Errorf("its PCRs are %q", h.Clevis.TPM2.PCRs)
			}
			w.PCRs = append(w.PCRs, pcr)
		}
		return bound(w)
	case "sss":
		if depth == maxDepth || h.Clevis.SSS.T < 1 {
			return Way{}, errors.New("its shared secret cannot be followed")
		}
		w := Way{Shares: h.Clevis.SSS.T}
		for _, share := range h.Clevis.SSS.JWE {
			protected, _, _ := strings.Cut(share, ".")
			of, err := parseClevis(protected, depth+1)
			if err != nil {
				of = notUnderstood
			}
			w.Of = append(w.Of, of)
		}
		return w, nil
	}
	return Way{}, fmt.Errorf("the pin %q is not known", h.Clevis.Pin)
}
