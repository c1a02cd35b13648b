// Command idle does nothing for a while: it is what others leave behind.
package main

import "time"

func main() { time.Sleep(time.Minute) }
