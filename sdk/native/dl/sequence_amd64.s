#include "textflag.h"

// Offsets in Step.
#define step_function 0
#define step_result 8
#define step_last 12
#define step_check 16
#define step_want 24
#define step_args 32
#define step_size 128

GLOBL ·sequenceAddress(SB), NOPTR|RODATA, $8
DATA ·sequenceAddress(SB)/8, $sequence(SB)

// sequence is called with the C ABI on the thread's own stack: DI points to a Step. It returns how many calls were made
// before the one that stopped it. BX, R12 and R13 are the callee's to save in that ABI, so they outlive the calls; Go's
// caller expects none of them to be kept.
TEXT sequence(SB), NOSPLIT, $64
	MOVQ DI, BX
	XORL R12, R12

loop:
	MOVQ  step_check(BX), R13
	TESTQ R13, R13
	JNZ   few
	MOVQ  (step_args+48)(BX), AX
	MOVQ  AX, 0(SP)
	MOVQ  (step_args+56)(BX), AX
	MOVQ  AX, 8(SP)
	MOVQ  (step_args+64)(BX), AX
	MOVQ  AX, 16(SP)
	MOVQ  (step_args+72)(BX), AX
	MOVQ  AX, 24(SP)
	MOVQ  (step_args+80)(BX), AX
	MOVQ  AX, 32(SP)
	MOVQ  (step_args+88)(BX), AX
	MOVQ  AX, 40(SP)
	MOVQ  (step_args+32)(BX), R8
	MOVQ  (step_args+40)(BX), R9

few:
	MOVQ  (step_args+0)(BX), DI
	MOVQ  (step_args+8)(BX), SI
	MOVQ  (step_args+16)(BX), DX
	MOVQ  (step_args+24)(BX), CX
	MOVQ  step_function(BX), R10
	XORL  AX, AX
	CALL  R10
	MOVL  AX, step_result(BX)
	TESTL AX, AX
	JNZ   end
	TESTQ R13, R13
	JZ    next
	MOVQ  (R13), R11
	CMPQ  R11, step_want(BX)
	JNE   end

next:
	INCL R12
	CMPL step_last(BX), $0
	JNE  end
	ADDQ $step_size, BX
	JMP  loop

end:
	MOVL R12, AX
	RET
