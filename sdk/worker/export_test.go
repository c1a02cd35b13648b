package worker

// Take is take, for tests outside the package.
var Take = take
