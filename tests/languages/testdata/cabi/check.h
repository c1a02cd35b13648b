/* What the C test programs share. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#define FAIL(...)                                            \
	do {                                                 \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
		fprintf(stderr, __VA_ARGS__);                \
		fprintf(stderr, "\n");                       \
		exit(1);                                     \
	} while (0)

#define OK(call)                                                                   \
	do {                                                                       \
		weir_result got_ = (call);                                         \
		if (got_ != WEIR_OK)                                               \
			FAIL("%s: %d, %s", #call, (int)got_, weir_last_error());   \
	} while (0)

/* WANT checks a code, and that the error's text has some words. */
#define WANT(code, words, call)                                                                              \
	do {                                                                                                 \
		weir_result got_ = (call);                                                                   \
		if (got_ != (code) || strstr(weir_last_error(), (words)) == NULL)                            \
			FAIL("%s: %d \"%s\", want %d with \"%s\"", #call, (int)got_, weir_last_error(), (int)(code), (words)); \
	} while (0)

/* sum_is_right all-reduces on a group and checks every element. */
static inline void sum_is_right(weir_group g, int count)
{
	int32_t rank, size;
	OK(weir_rank(g, &rank));
	OK(weir_size(g, &size));
	float *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out);
	for (int i = 0; i < count; i++)
		in[i] = (float)(rank + i % 7);
	OK(weir_all_reduce(g, out, in, count, WEIR_FLOAT32, WEIR_SUM));
	for (int i = 0; i < count; i++)
		if (out[i] != (float)(size * (size - 1) / 2 + size * (i % 7)))
			FAIL("rank %d: element %d of %d is %g", rank, i, count, out[i]);
	free(in);
	free(out);
}
