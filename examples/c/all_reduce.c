/* Every rank gives its number, and gets the sum of all.
 *
 *   ./task build cabi
 *   cc -o bin/all_reduce examples/c/all_reduce.c $(PKG_CONFIG_PATH=bin/lib pkg-config --cflags --libs weir) -Wl,-rpath,"$PWD/bin/lib"
 *   bin/weir run -n 4 -- bin/all_reduce
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir.h>

static void must(weir_result r)
{
	if (r != WEIR_OK) {
		fprintf(stderr, "%s\n", weir_last_error());
		exit(1);
	}
}

int main(void)
{
	enum { COUNT = 1000 };
	float in[COUNT], out[COUNT];
	weir_session session;
	weir_group world;
	int32_t rank, size;

	must(weir_join(NULL, &session)); /* who this rank is and where the agent is, weir run has put into the environment */
	must(weir_world(session, &world));
	must(weir_rank(world, &rank));
	must(weir_size(world, &size));

	for (int i = 0; i < COUNT; i++)
		in[i] = (float)(rank + i);
	must(weir_all_reduce(world, out, in, COUNT, WEIR_FLOAT32, WEIR_SUM));
	for (int i = 0; i < COUNT; i++) {
		float want = (float)(size * (size - 1) / 2 + size * i);
		if (out[i] != want) {
			fprintf(stderr, "rank %d: element %d is %g, want %g\n", rank, i, out[i], want);
			return 1;
		}
	}

	char backend[64];
	weir_class used = {WEIR_HOST, WEIR_FLOAT32, WEIR_SUM, 0};
	must(weir_backend(world, &used, sizeof in, backend, sizeof backend));
	printf("rank %d of %d: element 0 is %g, by %s, weir %s\n", rank, size, out[0], backend, weir_version());
	must(weir_leave(session));
	return 0;
}
