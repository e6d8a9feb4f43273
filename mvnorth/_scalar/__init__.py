"""The mathematics of one number, as plain ``@scalar`` functions shared by every kernel.

No function here branches on its argument in a way that stops LLVM from turning a loop over
it into vector code: both sides are computed and one is selected.
"""
