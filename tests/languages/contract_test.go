package languages

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// descriptorDiff compares the description of plugin.proto that generated code of another language carries, in hexadecimal,
// with that of the Go code. What the file is called and names that follow from others do not count.
func descriptorDiff(t *testing.T, text string) string {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	theirs := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(data, theirs); err != nil {
		t.Fatal(err)
	}
	ours := protodesc.ToFileDescriptorProto(pluginv1.File_pluginv1_plugin_proto)
	ours.Name, theirs.Name = nil, nil
	return cmp.Diff(ours, theirs, protocmp.Transform(), protocmp.IgnoreFields(&descriptorpb.FieldDescriptorProto{}, "json_name"))
}
