// Command cabi is libweir.so, the C interface of Weir (weir.h): it is built with -buildmode=c-shared, the one place that
// needs cgo. Without cgo it is empty.
package main

func main() {}
