#include "textflag.h"

// func spin(signal *uint64, want uint32, loops int)
TEXT ·spin(SB), NOSPLIT, $0-24
	MOVQ signal+0(FP), AX
	MOVL want+8(FP), BX
	MOVQ loops+16(FP), CX

again:
	MOVL (AX), DX
	SUBL BX, DX
	JGE  done // signed difference: reached
	PAUSE
	DECQ CX
	JNZ  again

done:
	RET
