package luks

// Parse parses the JSON area of a header.
var Parse = parse
