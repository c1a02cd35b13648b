#include "textflag.h"

// func spin(signal *uint64, want uint32, loops int)
TEXT ·spin(SB), NOSPLIT, $0-24
	MOVD  signal+0(FP), R0
	MOVWU want+8(FP), R1
	MOVD  loops+16(FP), R2

again:
	MOVWU (R0), R3
	SUBW  R1, R3, R3
	TBZ   $31, R3, done // signed difference: reached
	YIELD
	SUBS  $1, R2, R2
	BNE   again

done:
	RET
