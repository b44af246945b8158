// Package document reads the documents of YAML files strictly, and reports each problem with its file and line.
package document
