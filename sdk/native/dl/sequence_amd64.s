#include "textflag.h"

// Offsets in Step and sequenceArgs.
#define step_function 0
#define step_args 8
#define step_result 104
#define step_check 112
#define step_mask 120
#define step_want 128
#define step_size 136
#define args_next 0
#define args_left 8
#define args_done 16

GLOBL ·sequenceAddress(SB), NOPTR|RODATA, $8
DATA ·sequenceAddress(SB)/8, $sequence(SB)

// sequence is called with the C ABI on the thread's own stack: DI points to the sequenceArgs. BX, R12 and R13 are the
// callee's to save in that ABI, so they outlive the calls; Go's caller expects none of them to be kept.
TEXT sequence(SB), NOSPLIT, $64
	MOVQ DI, R12
	MOVQ args_next(R12), BX
	MOVQ args_left(R12), R13

loop:
	TESTQ R13, R13
	JZ    end
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
	MOVQ  (step_args+0)(BX), DI
	MOVQ  (step_args+8)(BX), SI
	MOVQ  (step_args+16)(BX), DX
	MOVQ  (step_args+24)(BX), CX
	MOVQ  (step_args+32)(BX), R8
	MOVQ  (step_args+40)(BX), R9
	MOVQ  step_function(BX), R10
	XORL  AX, AX
	CALL  R10
	MOVLQSX AX, AX
	MOVQ  AX, step_result(BX)
	TESTL AX, AX
	JNZ   end
	MOVQ  step_check(BX), R10
	TESTQ R10, R10
	JZ    next
	MOVQ  (R10), R11
	ANDQ  step_mask(BX), R11
	CMPQ  R11, step_want(BX)
	JNE   end

next:
	INCQ args_done(R12)
	ADDQ $step_size, BX
	DECQ R13
	JMP  loop

end:
	XORL AX, AX
	RET
