package vm

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

const (
	// secretDisk is encrypted; secretKey is a key file that opens it, as a passphrase does.
	secretDisk = "/dev/vdb"
	secretKey  = "/run/lab.key"
)

// seal makes an encrypted file system as Debian's own programs do, which the machine's TPM opens while PCRs 0, 2 and 7 stay as they are,
// or a person with the key or a recovery key. It is opened by the TPM, and mounted where a boot would wait for it.
var seal = [][]string{
	{"cryptsetup", "luksFormat", "--batch-mode", "--type=luks2", "--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", secretDisk, secretKey},
	{"systemd-cryptenroll", "--unlock-key-file=" + secretKey, "--tpm2-device=auto", "--tpm2-pcrs=0+2+7", secretDisk},
	{"systemd-cryptenroll", "--unlock-key-file=" + secretKey, "--recovery-key", secretDisk},
	{"cryptsetup", "open", "--token-only", "--token-type=systemd-tpm2", secretDisk, "secret"},
	{"mke2fs", "-q", "-t", "ext4", "-O", "^metadata_csum", "/dev/mapper/secret"},
	{"mount", "/dev/mapper/secret", "/media"},
}

// An update of a disk changes PCRs 2 and 3. Its job is refused before anything is written. With a token for a register that no firmware is
// measured into it goes.
func unlockKept(ctx context.Context, s *scene) (string, error) {
	target := trial.Target{Part: scsiDisk, Version: "0004", Image: scsiImage("0004")}
	if err := s.agent().Plug(ctx, "scsi_debug"); err != nil {
		return "", err
	}
	if err := s.agent().Write(ctx, secretKey, "the key of the lab"); err != nil {
		return "", err
	}
	if err := s.runAll(ctx, seal...); err != nil {
		return "", err
	}
	before, err := s.agent().Number(ctx, scsiWrites)
	if err != nil {
		return "", err
	}
	if err := s.Declare(ctx, target); err != nil {
		return "", err
	}
	refused, err := s.failed(ctx)
	if err != nil {
		return "", err
	}
	why := reason(refused)
	for _, want := range []string{
		v1alpha1.ReasonUnlockUnavailable, "nothing was changed", "of the encrypted disk vdb after the reboot it would be opened only by a person at the console",
		"(systemd-tpm2)", "PCRs of the TPM that change (2, 3)",
	} {
		if !strings.Contains(why, want) {
			return "", fmt.Errorf("the job does not say %q: %s", want, trial.Describe(refused))
		}
	}
	if after, err := s.agent().Number(ctx, scsiWrites); err != nil || after != before {
		return "", fmt.Errorf("an image was written (%d, before %d; %w)", after, before, err)
	}
	if err := s.InService(ctx); err != nil {
		return "", err
	}
	if err := s.runAll(ctx, []string{"systemd-cryptenroll", "--unlock-key-file=" + secretKey, "--tpm2-device=auto", "--tpm2-pcrs=11", secretDisk}); err != nil {
		return "", err
	}
	if err := s.Declare(ctx, target); err != nil {
		return "", err
	}
	if err := s.retry(ctx); err != nil {
		return "", err
	}
	if _, err := s.complete(ctx, target); err != nil {
		return "", err
	}
	return why, s.runAll(ctx, []string{"umount", "/media"}, []string{"cryptsetup", "close", "secret"})
}

// runAll runs programs in the machine, one after the other.
func (s *scene) runAll(ctx context.Context, commands ...[]string) error {
	for _, argv := range commands {
		ran, err := s.agent().Run(ctx, argv...)
		if err != nil {
			return fmt.Errorf("run %s: %w", argv[0], err)
		}
		if ran.ExitCode != 0 {
			return fmt.Errorf("run %s: exit code %d: %s%s", strings.Join(argv, " "), ran.ExitCode, ran.Stdout, ran.Stderr)
		}
	}
	return nil
}

// retry asks for another try now.
func (s *scene) retry(ctx context.Context) error {
	var n v1alpha1.NodeFirmware
	if err := s.API.Get(ctx, client.ObjectKey{Name: nodeName}, &n); err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	old := n.DeepCopy()
	n.Spec.Requests.Retry = "another way opens the disk"
	if err := s.API.Patch(ctx, &n, client.MergeFrom(old)); err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	return nil
}
