package sourcefile

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Command is the verb that prints the FirmwareSource of files, of every program that has it. Its error matches ErrFillIn where a person has to fill in
// something, for which the program ends with 2.
func Command() *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use:   "source FILE...",
		Short: "Write the FirmwareSource of a vendor's files",
		Long: "Write to standard output the FirmwareSource of files as vendors ship them: their digests, the images in them, and the versions\n" +
			"and boards that these say of themselves. It reads no device and changes nothing.\n\n" +
			"Exit code 0: the source is complete. 2: it is valid, and a person has to fill in what is marked FILL IN. 1: nothing was written.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			o.Program = c.CommandPath()
			text, err := Describe(c.Context(), files, o)
			if err != nil && !errors.Is(err, ErrFillIn) {
				return err
			}
			if _, failed := c.OutOrStdout().Write(text); failed != nil {
				return fmt.Errorf("write source: %w", failed)
			}
			return err
		},
	}
	c.Flags().StringVar(&o.URL, "url", "", "where the operator fetches the file; a directory, ending in a slash, for several files")
	c.Flags().StringVar(&o.Name, "name", "", "name of the FirmwareSource; empty for one made of the first file's name")
	c.Flags().StringVar(&o.Class, "class", "", "class of the devices: NIC, StorageController, Disk or BIOS; empty for what the files say")
	c.Flags().StringVar(&o.Version, "firmware-version", "", "version as a device reports it; empty for what the files say")
	c.Flags().StringVar(&o.Vendor, "vendor", "", "vendor of the devices; empty for what the files say")
	c.Flags().StringSliceVar(&o.Models, "model", nil, "model of the devices; may be repeated")
	c.Flags().StringArrayVar(&o.Paths, "path", nil, "path of an image in the archive; may be repeated; none for what looks like an image")
	c.Flags().BoolVar(&o.Whole, "whole", false, "describe a program or script that could be unpacked as an image that a profile runs")
	return c
}
