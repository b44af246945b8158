package view

// Thin is what the watch keeps of an object.
var Thin = thin
