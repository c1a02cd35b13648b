#include "textflag.h"

// func spin(signal *uint64, want uint32, loops int)
TEXT ·spin(SB), NOSPLIT, $0-24
	MOVQ signal+0(FP), AX
	MOVL want+8(FP), BX
	MOVQ loops+16(FP), CX

	// Without PAUSE at first: it may take 140 cycles, longer than a signal's way between near cores.
	MOVQ $64, SI

eager:
	MOVL (AX), DX
	SUBL BX, DX
	JGE  done
	DECQ SI
	JNZ  eager

again:
	MOVL (AX), DX
	SUBL BX, DX
	JGE  done // signed difference: reached
	PAUSE
	DECQ CX
	JNZ  again

done:
	RET
